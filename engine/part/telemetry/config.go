package telemetry

import (
	"cmp"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/telemetry/otlp"
)

// settings are those of the user and the administrator; a project has none.
type settings struct {
	Telemetry struct {
		Endpoint string            `json:"endpoint"`
		Headers  map[string]string `json:"headers"`
		Content  bool              `json:"content"`
		Names    string            `json:"names"`
	} `json:"telemetry"`
}

// A configuration says what is sent where. Sessions with the same one share a connection.
type configuration struct {
	traces, metrics, logs otlp.Target
	resource              []attribute.KeyValue
	content               bool
	names                 naming
	delta                 bool          // metrics say what came since the last time
	every                 time.Duration // how often metrics are sent
	sampler               otlp.Sampler
	key                   string // the same for the same configuration
}

// A source is where a configuration comes from: an [engine.Project], or the user's settings alone.
type source interface {
	Where(key string) []engine.SettingPosition
	ReadSettings(into any) error
}

// configure returns the configuration of a session; nil: nothing is sent. It must cost nothing where nobody asks for
// telemetry.
func configure(p source, env engine.Env, version string) (c *configuration, problems []knack.Problem) {
	var set settings
	if len(p.Where("telemetry.endpoint")) > 0 || anyEndpoint(env) {
		p.ReadSettings(&set) // the engine has read them
	} else {
		return nil, nil
	}
	if strings.EqualFold(env.Get("OTEL_SDK_DISABLED"), "true") {
		return nil, nil
	}
	c = &configuration{content: set.Telemetry.Content, every: time.Minute,
		sampler: otlp.Sampler{Name: env.Get("OTEL_TRACES_SAMPLER"), Arg: env.Get("OTEL_TRACES_SAMPLER_ARG")},
		delta:   strings.EqualFold(env.Get("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"), "delta")}
	if set.Telemetry.Names == "claude_code" {
		c.names = claudeCode()
	}
	if ms, err := strconv.Atoi(env.Get("OTEL_METRIC_EXPORT_INTERVAL")); err == nil && ms > 0 {
		c.every = time.Duration(ms) * time.Millisecond
	}
	at := p.Where("telemetry.endpoint")
	managed := len(at) > 0 && at[0].Origin == permission.Managed
	for _, signal := range []struct {
		name, path string
		to         *otlp.Target
	}{{"TRACES", "v1/traces", &c.traces}, {"METRICS", "v1/metrics", &c.metrics}, {"LOGS", "v1/logs", &c.logs}} {
		if env.Get("OTEL_"+signal.name+"_EXPORTER") == "none" && !managed {
			continue
		}
		t, err := targetOf(env, signal.name, signal.path, &set, managed)
		if err != "" {
			problems = append(problems, knack.Problem{Code: knack.CodeSettingIgnored, Severity: knack.Warn,
				Message: "telemetry: nothing is sent: " + err, Hint: "knack help telemetry"})
			return nil, problems
		}
		*signal.to = t
	}
	if c.traces.URL == "" && c.metrics.URL == "" && c.logs.URL == "" {
		return nil, problems
	}
	c.resource = resourceOf(env, version)
	var key strings.Builder
	for _, t := range []otlp.Target{c.traces, c.metrics, c.logs} {
		key.WriteString(t.URL + "\n")
		for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
			key.WriteString(name + "=" + t.Headers[name] + "\n")
		}
	}
	c.key = key.String() + set.Telemetry.Names + strconv.FormatBool(c.content)
	return c, problems
}

func anyEndpoint(env engine.Env) bool {
	for _, name := range [...]string{"", "TRACES_", "METRICS_", "LOGS_"} {
		if env.Get("OTEL_EXPORTER_OTLP_"+name+"ENDPOINT") != "" {
			return true
		}
	}
	return false
}

// targetOf returns where a signal goes; problem says why nothing can be sent, without the values of headers.
func targetOf(env engine.Env, signal, path string, set *settings, managed bool) (t otlp.Target, problem string) {
	// variable returns the value of the signal's variable, or else that for all signals.
	variable := func(name string) string {
		return cmp.Or(env.Get("OTEL_EXPORTER_OTLP_"+signal+"_"+name), env.Get("OTEL_EXPORTER_OTLP_"+name))
	}
	address := env.Get("OTEL_EXPORTER_OTLP_" + signal + "_ENDPOINT")
	if address == "" {
		address = under(env.Get("OTEL_EXPORTER_OTLP_ENDPOINT"), path)
	}
	own := address == "" || managed
	if own {
		address = under(set.Telemetry.Endpoint, path)
	}
	if address == "" {
		return t, ""
	}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.User != nil:
		return t, "the address of the collector is none, or has a password: use headers"
	case u.Scheme == "file" && filepath.IsAbs(u.Path) && u.Host == "":
		return otlp.Target{URL: "file://" + u.Path}, ""
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return t, "the address of the collector must begin with http://, https:// or file:///"
	}
	if protocol := variable("PROTOCOL"); protocol != "" && protocol != "http/json" && !own {
		return t, "OTEL_EXPORTER_OTLP_PROTOCOL is " + strconv.QuoteToASCII(protocol) + ", and Knack sends http/json only: " +
			"set it to that, with the collector's port for HTTP (4318)"
	}
	t = otlp.Target{URL: u.String(), Headers: map[string]string{}, Gzip: variable("COMPRESSION") != "none"}
	if ms, err := strconv.Atoi(variable("TIMEOUT")); err == nil && ms > 0 {
		t.Timeout = time.Duration(ms) * time.Millisecond
	}
	if own {
		for name, value := range set.Telemetry.Headers {
			if variable, ok := strings.CutPrefix(value, "$"); ok {
				value = env.Get(variable)
			}
			t.Headers[name] = value
		}
		return t, ""
	}
	for pair := range strings.SplitSeq(variable("HEADERS"), ",") {
		name, value, ok := strings.Cut(pair, "=")
		if decoded, err := url.PathUnescape(strings.TrimSpace(value)); ok && err == nil {
			t.Headers[strings.TrimSpace(name)] = decoded
		}
	}
	return t, ""
}

// under returns an address with a path below that of a base; "": there is no base. A file is one for all signals.
func under(base, path string) string {
	if base == "" || strings.HasPrefix(base, "file:") {
		return base
	}
	return strings.TrimSuffix(base, "/") + "/" + path
}

// resourceOf describes the program to a collector. It has neither the machine's name nor the user's: who wants them
// adds them to OTEL_RESOURCE_ATTRIBUTES.
func resourceOf(env engine.Env, version string) []attribute.KeyValue {
	all := []attribute.KeyValue{attribute.String("service.name", cmp.Or(env.Get("OTEL_SERVICE_NAME"), "knack")),
		attribute.String("service.version", version)}
	for pair := range strings.SplitSeq(env.Get("OTEL_RESOURCE_ATTRIBUTES"), ",") {
		name, value, ok := strings.Cut(pair, "=")
		name = strings.TrimSpace(name)
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if !ok || err != nil || name == "" || name == "service.version" {
			continue
		}
		if name == "service.name" {
			if env.Get("OTEL_SERVICE_NAME") == "" {
				all[0] = attribute.String(name, value)
			}
			continue
		}
		all = append(all, attribute.String(name, value))
	}
	return all
}
