package telemetry_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// A collector keeps what it gets, decoded.
type collector struct {
	*httptest.Server
	mu      sync.Mutex
	spans   []span
	metrics []string
	// instruments are the metrics with their units.
	instruments []instrument
	events      []string
	body        string // all requests
	paths       []string
	headers     []http.Header
	answer      func(http.ResponseWriter, *http.Request) // nil: 200
}

type span struct {
	TraceID, SpanID, ParentSpanID, Name string
	Status                              struct{ Code int }
	Attributes                          []attr
}

type instrument struct {
	Name, Unit string
	Histogram  bool
}

type attr struct {
	Key   string
	Value struct{ StringValue, IntValue string }
}

// get returns an attribute; "": it is missing.
func (s span) get(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.StringValue + a.Value.IntValue
		}
	}
	return ""
}

func newCollector(t *testing.T) *collector {
	t.Helper()
	c := &collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) serve(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		if z, err := gzip.NewReader(r.Body); err == nil {
			body = z
		}
	}
	data, _ := io.ReadAll(body)
	c.mu.Lock()
	c.body += string(data) + "\n"
	c.paths, c.headers = append(c.paths, r.URL.Path), append(c.headers, r.Header)
	c.decode(data)
	answer := c.answer
	c.mu.Unlock()
	if answer != nil {
		answer(w, r)
	}
}

// decode keeps the names in one request.
func (c *collector) decode(data []byte) {
	var x struct {
		ResourceSpans   []struct{ ScopeSpans []struct{ Spans []span } }
		ResourceMetrics []struct {
			ScopeMetrics []struct {
				Metrics []struct {
					Name, Unit string
					Histogram  json.RawMessage
				}
			}
		}
		ResourceLogs []struct {
			ScopeLogs []struct{ LogRecords []struct{ EventName string } }
		}
	}
	if err := json.Unmarshal(data, &x); err != nil {
		c.events = append(c.events, "invalid JSON: "+err.Error())
	}
	for _, r := range x.ResourceSpans {
		for _, s := range r.ScopeSpans {
			c.spans = append(c.spans, s.Spans...)
		}
	}
	for _, r := range x.ResourceMetrics {
		for _, s := range r.ScopeMetrics {
			for _, m := range s.Metrics {
				c.metrics = append(c.metrics, m.Name)
				c.instruments = append(c.instruments, instrument{m.Name, m.Unit, m.Histogram != nil})
			}
		}
	}
	for _, r := range x.ResourceLogs {
		for _, s := range r.ScopeLogs {
			for _, l := range s.LogRecords {
				c.events = append(c.events, l.EventName)
			}
		}
	}
}

// tree returns the spans, indented by their parents, in the order in which they ended within one parent.
func (c *collector) tree() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := map[string]bool{}
	for _, s := range c.spans {
		known[s.SpanID] = true
	}
	var b strings.Builder
	var write func(parent, indent string)
	write = func(parent, indent string) {
		for _, s := range c.spans {
			if s.ParentSpanID == parent || parent == "" && !known[s.ParentSpanID] {
				name := s.Name
				if s.Status.Code == 2 {
					name += " (failed)"
				}
				fmt.Fprintln(&b, indent+name)
				write(s.SpanID, indent+"  ")
			}
		}
	}
	write("", "")
	return b.String()
}

// named returns the spans with a name.
func (c *collector) named(name string) (found []span) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

// withEnv returns options whose environment has variables, too.
func withEnv(o engine.Options, env map[string]string) engine.Options {
	before := o.Env
	o.Env = func(name string) string {
		if v, ok := env[name]; ok {
			return v
		}
		return before(name)
	}
	return o
}

// run runs prompts in a session and closes it.
func run(t *testing.T, p enginetest.Fixture, o engine.Options, person engine.Person, prompts ...string) string {
	t.Helper()
	_, s := p.Open(t, o, person, engine.SessionOptions{Forget: true, Wait: true})
	var all string
	for _, prompt := range prompts {
		all += enginetest.Run(t, s, prompt) + "\n"
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return all
}

func bash(line string) llmtest.Answer { return enginetest.Calls("bash", `{"command": "`+line+`"}`) }

const remote = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// TestSpans: a turn with a question, a skill and a sub-agent is one tree below the span of the environment, with no
// text, path, argument or secret, and a command, which knows its place in it.
func TestSpans(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands need a shell")
	}
	t.Parallel()
	c := newCollector(t)
	p := enginetest.New(t, "~/.config/knack/skills/notes/SKILL.md", "---\ndescription: private words\n---\nread them",
		".knack/settings.json", `{"telemetry": {"endpoint": "http://127.0.0.1:1", "content": true, "headers": {"a": "b"}}}`)
	m := &llmtest.Script{Answers: []llmtest.Answer{
		bash("echo $TRACEPARENT > place; cat /etc/hostname"),
		enginetest.Calls("Skill", `{"skill": "notes"}`),
		enginetest.Calls("Agent", `{"agent": "general-purpose", "prompt": "private task", "description": "private"}`),
		bash("echo private > from-agent"),
		{Text: "private report"},
		enginetest.Calls("privateTool", `{}`),
		{Error: &llm.Error{Kind: llm.Invalid, Status: 400, Message: "private message"}},
	}}
	o := withEnv(p.Options(m), map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "TRACEPARENT": remote,
		"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20x,b=c", "OTEL_RESOURCE_ATTRIBUTES": "team=a%2Cb"})
	o.Trust = true
	person := enginetest.PersonFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
		return engine.Answer{Option: engine.OptionOnce}, nil
	})
	said := run(t, p, o, person, "private prompt")
	want := `invoke_agent knack (failed)
  chat script
  execute_tool bash
    knack.wait
  chat script
  execute_tool Skill notes
  chat script
  execute_tool Agent
    invoke_agent general-purpose
      chat script
      execute_tool bash
        knack.wait
      chat script
  chat script
  execute_tool unknown (failed)
  chat script (failed)
`
	if got := c.tree(); got != want {
		t.Errorf("spans:\n%s\nthe run:\n%s", got, said)
	}
	for _, s := range c.spans {
		if s.TraceID != remote[3:35] {
			t.Errorf("%s is in the trace %s", s.Name, s.TraceID)
		}
	}
	if root := c.named("invoke_agent knack"); len(root) == 1 && root[0].ParentSpanID != remote[36:52] {
		t.Errorf("the turn is below %s", root[0].ParentSpanID)
	}
	calls := c.named("execute_tool bash")
	if place := strings.TrimSpace(p.Content(t, "place")); len(calls) != 2 ||
		place != "00-"+remote[3:35]+"-"+calls[0].SpanID+"-01" {
		t.Errorf("the command is told the place %s", place)
	}
	if calls[0].get("knack.permission.verdict") != "allow" || calls[0].get("knack.permission.source") != "user" {
		t.Errorf("the call: %+v", calls[0])
	}
	slices.Sort(c.metrics)
	metrics := []string{"gen_ai.client.operation.duration", "gen_ai.client.token.usage", "gen_ai.execute_tool.duration",
		"knack.cost", "knack.permission.decisions", "knack.sessions", "knack.skill.activations"}
	if !slices.Equal(c.metrics, metrics) {
		t.Errorf("metrics: %q", c.metrics)
	}
	for _, name := range []string{"knack.prompt", "knack.request", "knack.request.failed", "knack.tool.result",
		"knack.permission.decision", "knack.skill.activated", "knack.agent.ended"} {
		if !slices.Contains(c.events, name) {
			t.Errorf("there is no record %s in %q", name, c.events)
		}
	}
	for _, word := range []string{"private", p.Dir, p.Home, "hostname", "read them", "from-agent"} {
		if strings.Contains(c.body, word) {
			t.Errorf("%q was sent", word)
		}
	}
	if !strings.Contains(c.body, `"a,b"`) {
		t.Error("OTEL_RESOURCE_ATTRIBUTES is not sent")
	}
	for i, h := range c.headers {
		if h.Get("Authorization") != "Bearer x" || h.Get("Content-Type") != "application/json" ||
			!strings.HasPrefix(c.paths[i], "/v1/") {
			t.Errorf("%s: %v", c.paths[i], h)
		}
	}
}

// TestContent: texts are sent only where the user says so, without the secrets among them.
func TestContent(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	const key = "sk-ant-api03-Zq8xK2mVb7LwT5nRy4PjD9sHcE1fGaQ6uXo3iBvMzN0tWkYrJd-A"
	p := enginetest.New(t, ".env", "TOKEN=Xk29vLmQ83rTzW7p\n",
		"~/.config/knack/settings.json", `{"telemetry": {"content": true, "names": "claude_code", "endpoint": "`+c.URL+`",
			"headers": {"X-Key": "$COLLECTOR_KEY"}}, "permissions": {"allow": ["Read"]}}`)
	m := &llmtest.Script{Answers: []llmtest.Answer{enginetest.Calls("read", `{"path": ".env"}`), {Text: "an answer"}}}
	o := withEnv(p.Options(m), map[string]string{"COLLECTOR_KEY": "k"})
	person := enginetest.PersonFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
		return engine.Answer{Option: engine.OptionOnce}, nil
	})
	run(t, p, o, person, "a prompt with "+key)
	for _, word := range []string{"a prompt with [secret]", "an answer", "TOKEN=[secret]", "claude_code.interaction",
		"claude_code.llm_request", "claude_code.tool", "claude_code.token.usage", "claude_code.tool_decision",
		"claude_code.user_prompt", "session.id", "tool_name"} {
		if !strings.Contains(c.body, word) {
			t.Errorf("%q was not sent", word)
		}
	}
	for _, word := range []string{key, "Xk29vLmQ83rTzW7p", `"gen_ai.tool.name"`} {
		if strings.Contains(c.body, word) {
			t.Errorf("%q was sent", word)
		}
	}
	if c.headers[0].Get("X-Key") != "k" {
		t.Errorf("headers: %v", c.headers[0])
	}

	// A key that lies where a long text is cut is masked before that.
	m.Answers = append(m.Answers, llmtest.Reply("again"))
	run(t, p, o, person, strings.Repeat("word ", (32<<10-15)/5)+key)
	if !strings.Contains(c.body, "word [secret") || strings.Contains(c.body, key[:10]) {
		t.Error("the beginning of a key was sent")
	}
}

// TestCollectors: whatever a collector does, the run is the same, and the user is told once that nothing arrives.
func TestCollectors(t *testing.T) {
	t.Parallel()
	elsewhere := newCollector(t)
	hang := make(chan struct{})
	t.Cleanup(func() { close(hang) })
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request){
		"hangs": func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
		},
		"refuses": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"busy":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"redirects": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
		},
		"breaks off": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			panic(http.ErrAbortHandler)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCollector(t)
			c.Config.ErrorLog = nil
			c.answer = answer
			p := enginetest.New(t)
			m := &llmtest.Script{Answers: []llmtest.Answer{{Text: "an answer"}}}
			o := withEnv(p.Options(m), map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL,
				"OTEL_EXPORTER_OTLP_HEADERS": "authorization=secret"})
			e, s := p.Open(t, o, nil, engine.SessionOptions{Forget: true})
			if got := enginetest.Run(t, s, "hello"); !strings.Contains(got, "an answer") {
				t.Error(got)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			told := 0
			for _, n := range e.Notices() {
				if strings.HasPrefix(n.Message, "telemetry: ") && !strings.Contains(n.Message, "secret") {
					told++
				}
			}
			if told != 1 {
				t.Errorf("%d notices: %v", told, e.Notices())
			}
		})
	}
	t.Cleanup(func() {
		if len(elsewhere.paths) > 0 {
			t.Error("a redirect was followed")
		}
	})
}

// TestOff: without a variable or a setting of the user nothing is sent, and what cannot be sent is named.
func TestOff(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	for name, x := range map[string]struct {
		env  map[string]string
		want string // the start of a problem; "": none
	}{
		"nothing":  {nil, ""},
		"disabled": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_SDK_DISABLED": "true"}, ""},
		"grpc": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
			"telemetry: nothing is sent: OTEL_EXPORTER_OTLP_PROTOCOL"},
		"no address": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "localhost:4317"},
			"telemetry: nothing is sent: the address"},
		"a password": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:b@" + strings.TrimPrefix(c.URL, "http://")},
			"telemetry: nothing is sent: the address"},
		"no signal": {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL, "OTEL_TRACES_EXPORTER": "none",
			"OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none"}, ""},
	} {
		p := enginetest.New(t, ".knack/settings.json", `{"telemetry": {"endpoint": "`+c.URL+`"}}`)
		o := withEnv(p.Options(&llmtest.Script{Answers: []llmtest.Answer{{Text: "x"}}}), x.env)
		o.Trust = true
		_, s := p.Open(t, o, nil, engine.SessionOptions{Forget: true})
		enginetest.Run(t, s, "hello")
		said := ""
		for _, problem := range s.Problems() {
			if strings.HasPrefix(problem.Message, "telemetry: ") {
				said = problem.Message
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if x.want == "" && said != "" || !strings.HasPrefix(said, x.want) {
			t.Errorf("%s: %q", name, said)
		}
	}
	if len(c.paths) > 0 {
		t.Errorf("requests: %q", c.paths)
	}
}

// TestFile: a file gets a request a line, and a link is not written through.
func TestFile(t *testing.T) {
	t.Parallel()
	p := enginetest.New(t)
	file := filepath.Join(p.Home, "out.jsonl")
	answers := []llmtest.Answer{{Text: "x"}}
	run(t, p, withEnv(p.Options(&llmtest.Script{Answers: answers}),
		map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "file://" + filepath.ToSlash(file)}), nil, "hello")
	data, err := os.ReadFile(file)
	if err != nil || strings.Count(string(data), "\n") != 3 {
		t.Errorf("%v: %s", err, data)
	}
	if err := os.Rename(file, file+".old"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file+".old", file); err != nil {
		t.Skip(err)
	}
	run(t, p, withEnv(p.Options(&llmtest.Script{Answers: answers}),
		map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "file://" + filepath.ToSlash(file)}), nil, "hello")
	if after, _ := os.ReadFile(file + ".old"); len(after) != len(data) {
		t.Error("it wrote through a link")
	}
}

// TestQueue: of more spans than the queue holds the rest is dropped and counted, while the collector hangs.
func TestQueue(t *testing.T) {
	t.Parallel()
	c := newCollector(t)
	first := make(chan struct{})
	release := make(chan struct{})
	var once sync.Once
	c.answer = func(_ http.ResponseWriter, r *http.Request) {
		once.Do(func() { close(first) })
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
	p := enginetest.New(t)
	n := 0
	m := &llmtest.Script{Func: func(*llm.Request) llmtest.Answer {
		if n++; n > 1400 { // two spans each
			return llmtest.Answer{Text: "done"}
		}
		if n == 400 { // the first batch is on its way
			<-first
		}
		return enginetest.Calls("todo", fmt.Sprintf(`{"todos": [{"content": "%d", "status": "pending"}]}`, n))
	}}
	o := withEnv(p.Options(m), map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL})
	o.Values["limits.turns"] = 3000
	_, s := p.Open(t, o, nil, engine.SessionOptions{Forget: true})
	enginetest.Run(t, s, "go")
	close(release)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Contains(c.metrics, "knack.telemetry.dropped") {
		t.Errorf("nothing was counted; metrics %q, spans %d", c.metrics, len(c.spans))
	}
}
