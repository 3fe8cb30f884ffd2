package engine

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/internal/leaf/authority"
	"github.com/knack-agent/knack/run/llm"
)

// Users of other agents have variables in their environment that say how models are reached. These have the same effect
// here, or a warning names them.

// otherName returns the variable that other programs read in the place of one of ours; "": none.
func otherName(name string) string {
	switch name {
	case "OPENAI_BASE_URL":
		return "OPENAI_API_BASE"
	case "GOOGLE_GEMINI_BASE_URL":
		return "GEMINI_BASE_URL"
	}
	return ""
}

// ownVariable looks up a variable of the process under our name, and under that of other programs.
func (m *Models) ownVariable(name string) string {
	v := m.Env.Get(name)
	if other := otherName(name); v == "" && other != "" {
		v = m.Env.Get(other)
	}
	return v
}

// otherPlaces are variables that send all requests of Claude Code to another place, which has no equal here.
var otherPlaces = []string{"CLAUDE_CODE_USE_FOUNDRY", "ANTHROPIC_UNIX_SOCKET"}

// switchedOn reports whether the value of a switch of Claude Code turns it on, or whether a variable is set.
func switchedOn(value string) bool { return value != "" && value != "0" && value != "false" }

// readEnvironment adds what the variables of the process say about models, which come before those of settings files.
func (f *Foreign) readEnvironment() {
	env := f.project.options.Env
	if name := env.Get("ANTHROPIC_MODEL"); name != "" {
		f.models = append([]config.ForeignModel{{Name: name}}, f.models...)
	}
	for variable, tier := range tierVariables {
		if name := env.Get(variable); name != "" {
			if f.tiers == nil {
				f.tiers = map[string]string{}
			}
			f.tiers[tier] = name
		}
	}
	for _, name := range append(config.OtherVariables(), otherPlaces...) {
		if switchedOn(env.Get(name)) {
			f.unused = addUnused(f.unused, "the environment", name)
		}
	}
}

// customHeaders is the variable with headers for Anthropic, or for what stands in its place.
const customHeaders = "ANTHROPIC_CUSTOM_HEADERS"

// addHeaders adds the headers of customHeaders, lines of the form Name: Value.
func (m *Models) addHeaders(e *llm.Endpoint) {
	for line := range strings.Lines(m.getenv(customHeaders)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), ":")
		if name = strings.TrimSpace(name); !ok || name == "" {
			continue
		}
		if e.Header == nil {
			e.Header = http.Header{}
		}
		e.Header.Set(name, strings.TrimSpace(value))
	}
}

// client returns an HTTP client with the proxy, and the authorities that variables name; nil: the default client.
func (m *Models) client(proxy string) (*http.Client, error) {
	c, err := Client(proxy)
	if err != nil {
		return nil, err
	}
	trusted, err := authority.Config(m.getenv)
	if bad, ok := errors.AsType[*authority.Error](err); ok {
		return nil, &Error{Err: fmt.Errorf("%s: %w", bad.Variable, bad.Err), Hint: "unset " + bad.Variable, Exit: ExitUsage}
	}
	if trusted == nil {
		return c, nil
	}
	if c == nil {
		c = &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()}
	}
	c.Transport.(*http.Transport).TLSClientConfig = trusted
	return c, nil
}
