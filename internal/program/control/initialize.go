package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/mcp"
	sessionlog "github.com/knack-agent/knack/run/session"
)

// initialize is the first request of a host; it sets up the session.
type initialize struct {
	Hooks        map[string][]hookMatcher   `json:"hooks"`
	System       texts                      `json:"systemPrompt"`
	Append       string                     `json:"appendSystemPrompt"`
	Agents       map[string]json.RawMessage `json:"agents"`
	Skills       *[]string                  `json:"skills"`
	Schema       json.RawMessage            `json:"jsonSchema"`
	Title        string                     `json:"title"`
	Servers      []string                   `json:"sdkMcpServers"`
	Restricted   map[string]json.RawMessage `json:"sdkMcpServerConfigs"`
	Aliases      map[string]string          `json:"toolAliases"`
	PlanText     string                     `json:"planModeInstructions"`
	Plugins      []json.RawMessage          `json:"plugins"`
	StopsTasks   bool                       `json:"perTaskStopAffordance"`
	OtherServers map[string]json.RawMessage `json:"mcpServers"`
}

// Limits of what a host may give, so that the session stays below 300 MB. Hosts that were seen give less than a
// hundredth.
const (
	maxHostServers = 500
	maxCallbacks   = 50_000
)

func (in *initialize) check() error {
	callbacks := 0
	for _, matchers := range in.Hooks {
		for _, m := range matchers {
			callbacks += len(m.Callbacks)
		}
	}
	switch {
	case callbacks > maxCallbacks:
		return fmt.Errorf("initialize: %d hook callbacks, at most %d are possible", callbacks, maxCallbacks)
	case len(in.Servers)+len(in.OtherServers) > maxHostServers:
		return fmt.Errorf("initialize: %d MCP servers, at most %d are possible", len(in.Servers)+len(in.OtherServers),
			maxHostServers)
	}
	return nil
}

// texts is a string or a list of strings.
type texts []string

func (t *texts) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*t = texts{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// A hookMatcher names callbacks in the host.
type hookMatcher struct {
	Matcher   string   `json:"matcher"`
	Callbacks []string `json:"hookCallbackIds"`
	Timeout   float64  `json:"timeout"`   // seconds; 0: the default of the event
	OnFailure string   `json:"onFailure"` // continue; block: if a callback fails, it blocks

	unknown []string // members that Knack does not know
}

func (m *hookMatcher) UnmarshalJSON(data []byte) (err error) {
	type plain hookMatcher
	if err = json.Unmarshal(data, (*plain)(m)); err == nil {
		m.unknown, err = unknownMembers(data, *m)
	}
	return err
}

// check describes what makes a matcher something else than what its author wanted.
func (m *hookMatcher) check() error {
	switch {
	case m.Callbacks == nil:
		return errors.New("a matcher has no hookCallbackIds, so nothing would be called")
	case m.OnFailure != "" && m.OnFailure != "continue" && m.OnFailure != "block":
		return fmt.Errorf("onFailure: %.100q is not continue or block", m.OnFailure)
	}
	return nil
}

// A setup is the set of changes that initialize makes.
type setup struct {
	system   string
	append   string
	skills   []string
	host     engine.Host
	servers  []mcp.Server // given to the session after its start
	schema   *Schema
	title    string
	problems []string
	// stopsTasks means that the host can stop each background command, so that an interrupt does not.
	stopsTasks bool
}

// edit applies a setup to the options of a session.
func (u *setup) edit(o *engine.SessionOptions) {
	if u.system != "" {
		o.System = u.system
	}
	if u.append != "" {
		o.Append = append(slices.Clone(o.Append), u.append)
	}
	if u.schema != nil {
		o.Append = append(slices.Clone(o.Append), u.schema.Prompt())
	}
	if u.skills != nil {
		o.Skills = u.skills
	}
	if o.Tools != "" {
		o.Tools += ",mcp__*" // hosts choose among the program's own tools
		if !strings.Contains(o.Tools, "Skill") {
			o.Tools += ",-Skill"
		}
	}
	if o.ID == "" && (o.Resume == "" && !o.Latest || o.Fork) {
		o.ID = sessionlog.NewUUID() // as hosts expect
	}
	o.Host = u.host
	o.Wait = false // the end of an agent begins a turn
}

func (u *setup) problem(format string, args ...any) {
	u.problems = append(u.problems, fmt.Sprintf(format, args...))
}

// initialized is the answer to initialize.
type initialized struct {
	Commands     []slashCommand `json:"commands"`
	Agents       []agentInfo    `json:"agents"`
	Models       []modelInfo    `json:"models"`
	Style        string         `json:"output_style"`
	Styles       []string       `json:"available_output_styles"`
	Account      accountInfo    `json:"account"`
	Hooks        bool           `json:"hooks_applied"`
	OnFailure    bool           `json:"hook_on_failure_supported"`
	Plugins      bool           `json:"plugins_applied"`
	OtherServers bool           `json:"mcp_servers_applied"`
	Version      string         `json:"claude_code_version"`
	Problems     []string       `json:"problems"`
}

// An accountInfo says with what requests are paid. It never has the key.
type accountInfo struct {
	Provider string `json:"provider,omitempty"` // of the session's model
	// API is firstParty for a model of Anthropic; "": of somebody else.
	API string `json:"apiProvider,omitempty"`
	// Key is where the key is from: a variable, a file, the keyring or a helper program; none: none is needed.
	Key string `json:"apiKeySource,omitempty"`
}

// accountOf describes the account for the session's model; the zero value: the host gave the model, or there is none.
func accountOf(ctx context.Context, s *engine.Session) (a accountInfo) {
	m, err := s.Model(ctx)
	if err != nil {
		return a
	}
	a.Provider, _, _ = strings.Cut(m.Info().ID, "/")
	for _, u := range s.Engine().Models().Servers() {
		if u.Provider != a.Provider {
			continue
		}
		if a.Key = cmp.Or(u.Key, "none"); u.Provider == "anthropic" {
			a.API = "firstParty"
		}
		return a
	}
	return accountInfo{}
}

type slashCommand struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Hint        string `json:"argumentHint"`
	Builtin     bool   `json:"builtin,omitempty"`
}

type agentInfo struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Model       string `json:"model,omitempty"`
}

type modelInfo struct {
	Value       string `json:"value"`
	Name        string `json:"displayName"`
	Description string `json:"description"`
	Effort      bool   `json:"supportsEffort,omitempty"`
}

// initialize starts the session with the host's setup. If that fails, messages are refused until it succeeds
// (server.requested): what the host wanted to guard would run without its guards.
func (s *server) initialize(ctx context.Context, request json.RawMessage) (_ any, err error) {
	var in initialize
	if err := decode(request, &in); err != nil {
		return nil, fmt.Errorf("initialize: %w", err)
	}
	unknown, err := unknownMembers(request, in, membersWithoutEffect...)
	if err != nil {
		return nil, fmt.Errorf("initialize: %w", err)
	}
	s.mu.Lock()
	again := s.conversation != nil
	s.mu.Unlock()
	u, err := s.readSetup(in, again)
	if err != nil {
		return nil, err
	}
	for _, name := range unknown {
		u.problem("initialize: Knack does not have the member %.100q", name)
	}
	s.mu.Lock()
	s.host, s.setup = true, u
	s.mu.Unlock()
	if s.Messages != nil {
		s.Messages.setHostMode(u.problems)
	}
	session, err := s.start(ctx)
	if err != nil {
		s.cancel(startError{err})
		return nil, err
	}
	if s.Messages != nil && !again {
		s.watching.Go(func() { s.watchTasks(s.ctx) })
	}
	if again {
		given := u.host
		now := session.Host()
		given.Servers, given.Own, given.Rules, given.HookRan = now.Servers, now.Own, now.Rules, now.HookRan
		given.Controls, given.MaySave = now.Controls, now.MaySave
		for _, p := range session.SetHost(given) {
			u.problem("%s", p)
		}
	}
	if len(u.servers) > 0 {
		for _, was := range session.Host().Servers { // an initialize never removes what an earlier one restricted
			for i := range u.servers {
				if x := &u.servers[i]; x.Name == was.Name && x.Open != nil {
					x.Policy.Set(x.Policy.Now().Join(was.Policy.Now()))
				}
			}
		}
		u.problems = append(u.problems, s.setHostServers(session, u.servers)...)
		if s.Messages != nil {
			s.Messages.setHostMode(u.problems)
		}
	}
	if u.title != "" && session.Status().Title == "" {
		if err := session.Set(ctx, sessionlog.Setting{Title: u.title}); err != nil {
			return nil, err
		}
	}
	p := session.Engine().Project()
	out := initialized{
		Commands: commands(session), Agents: agents(session), Models: listModels(ctx, session),
		Account: accountOf(ctx, session), Style: "default",
		Styles: outputStyles,
		Hooks:  true, OnFailure: true, Plugins: len(in.Plugins) == 0, OtherServers: true,
		Version: p.Version(), Problems: append([]string{}, u.problems...),
	}
	return out, nil
}

// agents lists the agents that the session can start, in the form for hosts.
func agents(s *engine.Session) []agentInfo {
	all := []agentInfo{}
	seen := map[string]bool{}
	for _, d := range slices.Concat(s.Host().Agents, s.Engine().Project().Agents()) {
		if !seen[d.Name] {
			seen[d.Name] = true
			all = append(all, agentInfo{d.Name, d.Description, d.Model})
		}
	}
	return all
}

// readSetup converts the request to a setup. again means that the session has already started.
func (s *server) readSetup(in initialize, again bool) (u setup, err error) {
	if err := in.check(); err != nil {
		return u, err
	}
	u.stopsTasks = in.StopsTasks
	u.system, u.append, u.title = strings.Join(in.System, "\n\n"), in.Append, in.Title
	if in.Skills != nil {
		u.skills = append([]string{}, *in.Skills...)
	}
	if len(in.Schema) > 0 && string(in.Schema) != "null" {
		if u.schema, err = ParseSchema(in.Schema); err != nil {
			return u, fmt.Errorf("jsonSchema: %w", err)
		}
	}
	if again && (u.system != "" || u.append != "" || u.skills != nil || u.schema != nil) {
		u.problem("the session has begun: the system prompt, the skills and the JSON schema can no longer change")
	}
	for _, event := range slices.Sorted(maps.Keys(in.Hooks)) {
		if hook.Foreign(event) {
			u.problem("hooks: Knack does not have the event %s", event)
			continue
		}
		if err := checkEvent(event); err != nil {
			return u, fmt.Errorf("hooks: %w", err)
		}
		for _, m := range in.Hooks[event] {
			if err := m.check(); err != nil {
				return u, fmt.Errorf("hooks: %s: %w", event, err)
			}
			for _, name := range m.unknown {
				u.problem("hooks: %s: Knack does not have the member %.100q of a matcher", event, name)
			}
			for _, id := range m.Callbacks {
				h, err := s.callback(hook.Event(event), m, id)
				if err != nil {
					u.problem("hooks: %s: %v: it applies to every event of this kind%s", event, err,
						map[bool]string{true: ", and refuses each call"}[hook.Event(event).Guards()])
				}
				u.host.Hooks = append(u.host.Hooks, h)
			}
		}
	}
	if len(in.Agents) > 0 {
		data, err := json.Marshal(in.Agents)
		if err != nil {
			return u, err
		}
		defs, problems, err := agent.ParseDefinitions(string(data), knack.Explicit, part.KnownTools().AllNames()...)
		if err != nil {
			return u, fmt.Errorf("agents: %w", err)
		}
		for _, p := range problems {
			u.problem("agents: %s", p.Message)
		}
		for i := range defs {
			if defs[i].Unclear != "" {
				return u, fmt.Errorf("agents: %s: %s", defs[i].Name, defs[i].Unclear)
			}
			if defs[i].Mode == permission.Bypass { // only the command line can allow that
				defs[i].Mode = ""
				u.problem("agents: %s: bypassPermissions can only be chosen when the program starts", defs[i].Name)
			}
		}
		u.host.Agents = defs
	}
	var bad []string
	u.host.Aliases = in.Aliases
	if !s.Unattended {
		u.host.Elicit = &person{s}
	}
	u.servers, bad = s.hostServers(in.Servers, in.OtherServers)
	u.problems = append(u.problems, bad...)
	if err := restrictServers(u.servers, in.Restricted); err != nil {
		return u, err
	}
	u.host.Plan = in.PlanText
	if len(in.Plugins) > 0 {
		u.problem("initialize: plugins: they are read when the program starts; use --plugin-dir (pluginDelivery: argv)")
	}
	slices.Sort(u.problems)
	return u, nil
}

// callback makes a hook that calls a callback in the host.
func (s *server) callback(event hook.Event, m hookMatcher, id string) (hook.Hook, error) {
	block := m.OnFailure == "block"
	h, err := hook.New(event, m.Matcher, id, func(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
		var about struct {
			Call string `json:"tool_use_id"`
		}
		json.Unmarshal(input, &about)
		answer, err := s.request(ctx, hookCallback{subtypeHookCallback, id, input, about.Call})
		if err != nil && block && !event.Guards() { // for events that guard, the hook package blocks
			return json.Marshal(blocked{"block", fmt.Sprintf("a hook of the host failed: %v", err)})
		}
		return answer, err
	})
	h.Timeout = time.Duration(m.Timeout * float64(time.Second))
	h.Required = h.Required || block || event.Guards() // one that fails or is late refuses
	if h.Timeout < 0 {
		h.Timeout = 0
		err = errors.Join(err, errors.New("the timeout is negative"))
		if event.Guards() {
			h.Refuse(err.Error())
		}
	}
	return h, err
}

// A hookCallback asks the host to run a callback.
type hookCallback struct {
	Subtype subtype         `json:"subtype"` // hook_callback
	ID      string          `json:"callback_id"`
	Input   json.RawMessage `json:"input"` // in the form that hooks read
	Call    string          `json:"tool_use_id,omitempty"`
}

// blocked is the answer of a hook that blocks.
type blocked struct {
	Decision string `json:"decision"`
	Reason   string `json:"reason"`
}
