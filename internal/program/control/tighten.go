package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/mcp"
	sessionlog "github.com/knack-agent/knack/run/session"
)

// tightened is what a host has made stricter while the program runs. Server.mu protects it.
type tightened struct {
	servers map[string]bool  // MCP servers whose calls are asked about in every mode
	flags   permission.Rules // of apply_flag_settings
}

// setRules changes what the host has made stricter, from the next call on that a turn begins with.
func (s *server) setRules(session *engine.Session, change func(*tightened)) {
	s.mu.Lock()
	change(&s.tightened)
	rules := permission.Rules{Deny: s.tightened.flags.Deny, Ask: slices.Clone(s.tightened.flags.Ask)}
	for _, name := range slices.Sorted(maps.Keys(s.tightened.servers)) {
		if r, err := permission.ParseRule("mcp__"+mcp.Safe(name), permission.Managed); err == nil {
			rules.Ask = append(rules.Ask, r)
		}
	}
	s.mu.Unlock()
	host := session.Host()
	host.Rules = rules
	session.SetHost(host)
}

// flagRules reads permissions of apply_flag_settings: rules that deny or ask. null removes those of earlier requests.
func flagRules(data *json.RawMessage) (rules permission.Rules, err error) {
	if data == nil || string(*data) == "null" {
		return rules, nil
	}
	var in map[string][]string
	if err := decode(*data, &in); err != nil {
		return rules, err
	}
	for key, texts := range in {
		list := map[string]*[]permission.Rule{"deny": &rules.Deny, "ask": &rules.Ask}[key]
		if list == nil {
			return rules, fmt.Errorf("%s cannot be changed while the program runs, only deny and ask can", key)
		}
		for _, text := range texts {
			r, err := permission.ParseRule(text, permission.Flag)
			if err == nil {
				err = r.Misspelt()
			}
			if err != nil {
				return rules, err
			}
			*list = append(*list, r)
		}
	}
	return rules, nil
}

// tighten makes calls of an MCP server ask in every mode, or takes that back. It never makes anything looser.
func (s *server) tighten(_ context.Context, session *engine.Session, in struct {
	Server string          `json:"serverName"`
	Given  json.RawMessage `json:"mode"` // default, auto; null: as the mode of the session says
}) (any, error) {
	var mode *string
	switch {
	case in.Server == "":
		return nil, errors.New("serverName is missing")
	case in.Given == nil:
		return nil, errors.New("the mode is missing: default, auto or null")
	case json.Unmarshal(in.Given, &mode) != nil:
		return nil, errors.New("the mode is not a string or null")
	}
	if mode != nil && *mode != "default" && *mode != "auto" {
		return nil, fmt.Errorf("invalid mode %q: use default, auto or null; a mode for one server can only be stricter than "+
			"the session's", *mode)
	}
	s.setRules(session, func(t *tightened) {
		if t.servers == nil {
			t.servers = map[string]bool{}
		}
		if mode == nil {
			delete(t.servers, in.Server)
		} else {
			t.servers[in.Server] = true
		}
	})
	var out struct {
		Warning string `json:"warning,omitempty"`
	}
	if mode != nil && !slices.ContainsFunc(session.Status().Servers,
		func(x mcp.Status) bool { return x.Name == in.Server }) {
		out.Warning = fmt.Sprintf("there is no MCP server %.100q yet; the override applies when there is", in.Server)
	}
	return out, nil
}

// updateSettings changes the output style or the effort. With --host-may-save the effort is also stored in the user's
// settings, for later sessions; of output styles there is only one.
func (s *server) updateSettings(ctx context.Context, session *engine.Session, in struct {
	Source   string                     `json:"source"`
	Settings map[string]json.RawMessage `json:"settings"`
}) (any, error) {
	key := map[string]string{"localSettings": "outputStyle", "userSettings": "effortLevel"}[in.Source]
	if key == "" {
		return nil, fmt.Errorf("the source %q is not localSettings or userSettings", in.Source)
	}
	for name, data := range in.Settings {
		value := ""
		switch {
		case name != key:
			return nil, fmt.Errorf("%s cannot be changed in %s, only %s can", name, in.Source, key)
		case json.Unmarshal(data, &value) != nil || value == "":
			return nil, fmt.Errorf("%s is not a string", name)
		case key == "outputStyle" && !slices.Contains(outputStyles, value):
			return nil, fmt.Errorf("there is no output style %q", value)
		case key == "effortLevel":
			if err := session.Set(ctx, sessionlog.Setting{Effort: value}); err != nil {
				return nil, err
			}
			if !s.MaySave {
				break
			}
			if _, err := session.Engine().Project().Set("effort", value); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// readResource reads a page of an MCP App.
func (s *server) readResource(ctx context.Context, session *engine.Session, in struct {
	Server string `json:"serverName"`
	URI    string `json:"uri"`
}) (any, error) {
	if !strings.HasPrefix(in.URI, "ui://") {
		return nil, fmt.Errorf("the URI %.100q does not begin with ui://", in.URI)
	}
	all, err := session.Now().ReadResource(ctx, in.Server, in.URI)
	if err != nil {
		return nil, err
	}
	return struct {
		Contents []mcp.Content `json:"contents"`
	}{all}, nil
}
