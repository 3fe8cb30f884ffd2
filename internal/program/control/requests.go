package control

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	udiff "github.com/aymanbagabas/go-udiff"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/run/checkpoint"
	"github.com/knack-agent/knack/run/llm/models"
	sessionlog "github.com/knack-agent/knack/run/session"
)

// A handler answers a request of the host.
type handler func(s *server, ctx context.Context, request json.RawMessage) (any, error)

// handlers are the supported requests, except interrupt, which does not wait for its turn. All other
// requests are answered with an error.
var handlers = sync.OnceValue(func() map[subtype]handler {
	return map[subtype]handler{
		subtypeInitialize:         (*server).initialize,
		"set_permission_mode":     (*server).setMode,
		"set_model":               onSession((*server).setModel),
		"set_max_thinking_tokens": onSession((*server).setThinking),
		"get_context_usage":       onSession((*server).contextUsage),
		"get_session_cost":        onSession((*server).cost),
		"get_usage":               onSession((*server).usage),
		"get_binary_version":      onSession((*server).version),
		"list_models":             onSession((*server).models),
		"list_permission_rules":   onSession((*server).rules),
		"mcp_message":             (*server).fromServer,
		"mcp_status":              onSession((*server).mcpStatus),
		"mcp_set_servers":         onSession((*server).setServers),
		subtypeReconnect:          onSession((*server).reconnect),
		"mcp_toggle":              onSession((*server).toggle),
		"get_settings":            onSession((*server).settings),
		"apply_flag_settings":     onSession((*server).applySettings),
		"reload_skills":           onSession((*server).reloadSkills),
		"reload_plugins":          onSession((*server).reloadPlugins),
		"reload_output_styles":    onSession((*server).reloadStyles),
		"read_file":               (*server).readFile,
		"rename_session":          onSession((*server).rename),
		"stop_task":               onSession((*server).stopTask),
		"get_task_output":         onSession((*server).taskOutput),
		"cancel_async_message":    (*server).cancelMessage,
		"rewind_files":            onSession((*server).rewindFiles),
		"background_tasks":        onSession((*server).moveToBackground),
		"update_settings":         onSession((*server).updateSettings),
		"mcp_read_resource":       onSession((*server).readResource),
		subtypeOverride:           onSession((*server).tighten),
	}
})

// unsupported explains why a request that hosts know is answered with an error; "" if
// there is nothing to add.
func unsupported(request subtype) string {
	switch request {
	case "mcp_call":
		return "the model calls the tools of MCP servers"
	case "seed_read_state":
		return "an edit needs a file that the model has read in this session"
	}
	return ""
}

// requested answers a request from the host.
func (s *server) requested(in queuedFrame) {
	id := in.frame.ID
	response, err := any(nil), error(nil)
	kind := subtypeOf(in.frame.Request)
	if in.bad != nil {
		err = in.bad
	} else if h := handlers()[kind]; h != nil {
		response, err = h(s, in.request.ctx, in.frame.Request)
	} else if meantInitialize(kind) {
		err = fmt.Errorf("the request %q is not supported; did you mean initialize", kind)
	} else if why := unsupported(kind); why != "" {
		err = fmt.Errorf("the request %q is not supported: %s", kind, why)
	} else {
		err = fmt.Errorf("the request %q is not supported", kind)
	}
	s.mu.Lock()
	withdrawn := s.handling.remove(id, in.request)
	if meantInitialize(kind) {
		s.notSetUp = nil
		if err != nil { // what it should have restricted is not known
			s.host, s.notSetUp = true, fmt.Errorf("initialize failed, so no message is accepted until it succeeds: %w", err)
		}
	}
	s.mu.Unlock()
	if !withdrawn && id != "" && s.out != nil {
		s.respond(id, response, err)
	}
}

func (s *server) respond(id string, response any, err error) {
	r := controlResponds{Subtype: subtypeSuccess, ID: id, Response: response}
	if err != nil {
		r = controlResponds{Subtype: subtypeError, ID: id, Error: err.Error()}
	}
	s.out.write(controlResponse{typeControlResponse, r})
}

// parse decodes a request into a struct.
func parse[T any](request json.RawMessage) (T, error) {
	var in T
	if err := decode(request, &in); err != nil {
		return in, fmt.Errorf("the request cannot be read: %w", err)
	}
	return in, nil
}

// onSession makes a handler from a method that needs the session, and starts the session if necessary.
// T is the type of the request.
func onSession[T any](do func(s *server, ctx context.Context, session *engine.Session, in T) (any, error)) handler {
	return func(s *server, ctx context.Context, request json.RawMessage) (any, error) {
		in, err := parse[T](request)
		if err != nil {
			return nil, err
		}
		session, err := s.start(ctx)
		if err != nil {
			return nil, err
		}
		return do(s, ctx, session, in)
	}
}

// interrupt ends the running turn. It is answered at once.
func (s *server) interrupt(f frame) {
	in, err := parse[struct {
		Queued bool `json:"cancel_queued"`
	}](f.Request)
	if err != nil {
		s.respond(f.ID, nil, err)
		return
	}
	out := interrupted{Queued: []string{}}
	s.mu.Lock()
	var cancelled []string
	note := func(id string) {
		if id == "" || strings.HasPrefix(id, ownID) {
			return
		}
		if in.Queued {
			cancelled = append(cancelled, id)
		} else {
			out.Queued = append(out.Queued, id)
		}
	}
	if s.conversation != nil {
		session := s.conversation.Session()
		for _, m := range session.Status().Queue {
			if !in.Queued || session.RemoveQueued(m.ID) {
				note(m.ID)
			}
		}
	}
	for _, p := range s.prompts {
		note(p.id)
	}
	for _, w := range s.inbox {
		if w.frame.Type == typeUser {
			note(w.frame.UUID)
		}
	}
	if in.Queued {
		s.prompts = nil
		s.inbox = slices.DeleteFunc(s.inbox, func(w queuedFrame) bool { return w.frame.Type == typeUser })
		out.Cancelled = append([]string{}, cancelled...)
	}
	stop, conversation := s.stopTurn, s.conversation
	tasks := s.host && !s.setup.stopsTasks
	s.mu.Unlock()
	if stop != nil {
		stop(errInterrupted)
	}
	if tasks && conversation != nil {
		s.watching.Go(func() { stopTasks(conversation.Session()) })
	}
	s.respond(f.ID, out, nil)
}

// interrupted is the answer to interrupt: the IDs of the waiting messages.
type interrupted struct {
	Queued    []string `json:"still_queued"`
	Cancelled []string `json:"cancelled,omitempty"`
}

// modeOf returns the mode of a name that a host uses: in auto, which Knack does not have, a classifier of the host's
// vendor allows calls, so that the mode in which the host is asked comes closest.
func modeOf(name string) permission.Mode {
	if name == "auto" {
		return permission.Default
	}
	return permission.Mode(name)
}

func (s *server) setMode(ctx context.Context, request json.RawMessage) (any, error) {
	in, err := parse[struct {
		Mode string `json:"mode"`
	}](request)
	if err != nil {
		return nil, err
	}
	if in.Mode == "" {
		return nil, errors.New("the mode is missing")
	}
	session, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	if err := session.Set(ctx, sessionlog.Setting{Mode: modeOf(in.Mode)}); err != nil {
		return nil, err
	}
	s.Messages.modeChanged(session.Mode())
	return struct {
		Mode permission.Mode `json:"mode"`
	}{session.Mode()}, nil
}

func (s *server) setModel(ctx context.Context, session *engine.Session, in struct {
	Model *string `json:"model"`
}) (any, error) {
	name := ""
	if in.Model != nil {
		name = *in.Model
	}
	name, err := modelOrDefault(ctx, session, name)
	if err != nil {
		return nil, err
	}
	return nil, session.Set(ctx, sessionlog.Setting{Model: name})
}

// modelOrDefault returns a model's name. For "" and "default" it is that of the settings.
func modelOrDefault(ctx context.Context, session *engine.Session, name string) (string, error) {
	if name != "" && name != "default" {
		return name, nil
	}
	m, err := session.Engine().Models().Default(ctx, session.Engine().Project().Settings().Model)
	if err != nil {
		return "", err
	}
	return m.Info().ID, nil
}

func (s *server) setThinking(ctx context.Context, session *engine.Session, in struct {
	Tokens  json.RawMessage `json:"max_thinking_tokens"` // absent: unchanged; null: from the settings
	Display *string         `json:"thinking_display"`
}) (any, error) {
	if len(in.Tokens) > 0 {
		effort, tokens := sessionlog.DefaultEffort, 0
		if string(in.Tokens) != "null" {
			if err := json.Unmarshal(in.Tokens, &tokens); err != nil || tokens < 0 {
				return nil, fmt.Errorf("max_thinking_tokens is %s, not a number of tokens or null", in.Tokens)
			}
			effort = strconv.Itoa(tokens) // 0 requests no thinking tokens
		}
		if err := session.Set(ctx, sessionlog.Setting{Effort: effort}); err != nil {
			return nil, err
		}
	}
	if in.Display != nil && *in.Display != "summarized" {
		return nil, fmt.Errorf("thinking_display: %q is not supported: thinking is always summarized", *in.Display)
	}
	return nil, nil
}

// contextUsage describes what fills the model's window, in the form for hosts.
type contextUsage struct {
	Categories []contextCategory `json:"categories"`
	Total      int               `json:"totalTokens"`
	Max        int               `json:"maxTokens"`
	RawMax     int               `json:"rawMaxTokens"`
	Percentage float64           `json:"percentage"`
	Grid       []struct{}        `json:"gridRows"`
	Model      string            `json:"model"`
	Memory     []struct{}        `json:"memoryFiles"`
	Tools      []struct{}        `json:"mcpTools"`
	Agents     []struct{}        `json:"agents"`
	Compacts   bool              `json:"isAutoCompactEnabled"`
	Usage      *Usage            `json:"apiUsage"` // for the last answer; null: there was none
}

type contextCategory struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Tokens int    `json:"tokens"`
	Color  string `json:"color"`
	Kind   string `json:"kind"` // used, free
}

func (s *server) contextUsage(ctx context.Context, session *engine.Session, _ struct{}) (any, error) {
	c := session.Now().Context(ctx)
	out := contextUsage{Total: c.Used, Max: c.Window, RawMax: c.Window, Model: c.Model, Compacts: true,
		Grid: []struct{}{}, Memory: []struct{}{}, Tools: []struct{}{}, Agents: []struct{}{}}
	if state := session.Log().State(); state.LastModel != "" {
		u := usageOf(state.Last)
		out.Usage = &u
	}
	add := func(id, name, kind string, tokens int) {
		out.Categories = append(out.Categories, contextCategory{id, name, tokens, "text", kind})
	}
	add("system_prompt", "System prompt", "used", c.System)
	add("system_tools", "Tools", "used", c.Tools)
	add("skills", "Skills", "used", c.Listing+c.Texts)
	add("messages", "Messages", "used", c.Messages)
	if c.Window > 0 {
		add("free_space", "Free space", "free", max(0, c.Window-c.Used))
		out.Percentage = 100 * float64(c.Used) / float64(c.Window)
	}
	return out, nil
}

func (s *server) cost(ctx context.Context, session *engine.Session, _ struct{}) (any, error) {
	reply := command.Cost(session)
	return struct {
		Text string `json:"text"`
		Cost any    `json:"cost"`
	}{reply.String(), reply.Value}, nil
}

// A usageReport is the answer to get_usage. Knack has no subscription, and so no limits of one.
type usageReport struct {
	Session      sessionUsage `json:"session"`
	Subscription *string      `json:"subscription_type"`
	Available    bool         `json:"rate_limits_available"`
	Limits       *struct{}    `json:"rate_limits"`
	Behaviors    *struct{}    `json:"behaviors"`
}

// A sessionUsage is what the turns that ended since the program started have used.
type sessionUsage struct {
	Cost        float64               `json:"total_cost_usd"`
	APIDuration int64                 `json:"total_api_duration_ms"`
	Duration    int64                 `json:"total_duration_ms"`
	Added       int                   `json:"total_lines_added"` // by the tools edit and write
	Removed     int                   `json:"total_lines_removed"`
	Models      map[string]ModelUsage `json:"model_usage"`
}

func (s *server) usage(context.Context, *engine.Session, struct{}) (any, error) {
	return usageReport{Session: s.Messages.used()}, nil
}

func (s *server) version(ctx context.Context, session *engine.Session, _ struct{}) (any, error) {
	return struct {
		Version string `json:"version"`
	}{session.Engine().Project().Version()}, nil
}

func (s *server) models(ctx context.Context, session *engine.Session, _ struct{}) (any, error) {
	return struct {
		Models []modelInfo `json:"models"`
	}{listModels(ctx, session)}, nil
}

// listModels returns the models that the session may use, which are those of the providers with a key
// or a server.
func listModels(ctx context.Context, s *engine.Session) []modelInfo {
	out := []modelInfo{}
	if m, err := s.Model(ctx); err == nil {
		out = append(out, modelInfo{Value: "default", Name: "Default", Description: m.Info().ID, Effort: m.Info().Thinking})
	}
	found := s.Engine().Models()
	table := models.Known(found.Tables...)
	for _, server := range found.Servers() {
		p, ok := table.Provider(server.Provider)
		if !ok {
			continue
		}
		for _, name := range table.Names(p) {
			out = append(out, modelInfo{Value: name, Name: name, Description: server.Provider})
		}
	}
	return out
}

// A ruleEntry is a permission rule in effect.
type ruleEntry struct {
	Behavior behavior    `json:"behavior"`
	Source   string      `json:"source"`
	Rule     ruleValue   `json:"ruleValue"`
	Text     string      `json:"rule"`
	Where    editability `json:"editability"` // persistent: in a file; session; readonly
}

func (s *server) rules(ctx context.Context, session *engine.Session, _ struct{}) (any, error) {
	all := []ruleEntry{}
	add := func(behavior behavior, rules []permission.Rule) {
		for _, r := range rules {
			e := ruleEntry{behavior, sourceOf(r.Origin), ruleValueOf(r.String()), r.String(), editNever}
			switch r.Origin {
			case permission.User, permission.Project, permission.Kept:
				e.Where = editPersistent
			case permission.Flag, permission.Session:
				e.Where = editSession
			}
			all = append(all, e)
		}
	}
	rules := session.Now().Rules()
	add(behaviorAllow, rules.Allow)
	add(behaviorAsk, rules.Ask)
	add(behaviorDeny, rules.Deny)
	type state struct {
		Rules       []ruleEntry `json:"rules"`
		Directories []struct{}  `json:"workspaceDirectories"`
		Dir         string      `json:"originalCwd"`
		Managed     bool        `json:"managedOnly"`
	}
	return struct {
		State state `json:"state"`
	}{state{all, []struct{}{}, session.Engine().Project().Dir(), false}}, nil
}

func (s *server) settings(ctx context.Context, session *engine.Session, _ struct{}) (any, error) {
	reply, err := command.Settings(ctx, session, "")
	if err != nil {
		return nil, err
	}
	type applied struct {
		Model  string  `json:"model"`
		Effort *string `json:"effort"` // null: the model's default
	}
	now := applied{}
	if m, err := session.Model(ctx); err == nil {
		now.Model = m.Info().ID
	}
	if effort := session.Now().Effort(); effort != "" {
		now.Effort = &effort
	}
	return struct {
		Settings any     `json:"settings"` // key, value and places
		Applied  applied `json:"applied"`
	}{reply.Value, now}, nil
}

// applySettings changes the settings that can change while the program runs: the model and the effort.
// null undoes a change.
func (s *server) applySettings(ctx context.Context, session *engine.Session, in struct {
	Settings map[string]*json.RawMessage `json:"settings"`
}) (any, error) {
	if in.Settings == nil {
		return nil, errors.New("settings is missing")
	}
	var to sessionlog.Setting
	if data, given := in.Settings["permissions"]; given {
		rules, err := flagRules(data)
		if err != nil {
			return nil, fmt.Errorf("permissions: %w", err)
		}
		s.setRules(session, func(t *tightened) { t.flags = rules })
		delete(in.Settings, "permissions")
	}
	for _, key := range slices.Sorted(maps.Keys(in.Settings)) {
		value := ""
		if data := in.Settings[key]; data != nil && json.Unmarshal(*data, &value) != nil {
			return nil, fmt.Errorf("%s is not a string or null", key)
		}
		switch key {
		case "model":
			name, err := modelOrDefault(ctx, session, value)
			if err != nil {
				return nil, err
			}
			to.Model = name
		case "effort", "effortLevel":
			to.Effort = cmp.Or(value, sessionlog.DefaultEffort)
		default:
			return nil, fmt.Errorf("%s cannot be changed while the program runs, only model, effortLevel and rules that "+
				"deny or ask (permissions) can: start the program with --settings", key)
		}
	}
	if to == (sessionlog.Setting{}) {
		return nil, nil
	}
	return nil, session.Set(ctx, to)
}

// reloadPlugins reads the settings and everything that the directory provides again.
func (s *server) reloadPlugins(ctx context.Context, session *engine.Session, in struct {
	Plugins []json.RawMessage `json:"add_plugins"`
}) (any, error) {
	if len(in.Plugins) > 0 {
		return nil, errors.New("add_plugins is not supported")
	}
	if _, err := session.Engine().Reload(ctx); err != nil {
		return nil, err
	}
	s.Messages.commandsChanged(commands(session))
	errs := 0
	for _, x := range session.Engine().Problems() {
		if x.Severity == knack.Error {
			errs++
		}
	}
	return struct {
		Commands []slashCommand `json:"commands"`
		Agents   []agentInfo    `json:"agents"`
		Plugins  []Plugin       `json:"plugins"`
		Servers  []mcpStatus    `json:"mcpServers"`
		Errors   int            `json:"error_count"`
	}{commands(session), agents(session), plugins(session), statuses(session), errs}, nil
}

func (s *server) reloadStyles(context.Context, *engine.Session, struct{}) (any, error) {
	return struct {
		Styles []string `json:"available_output_styles"`
	}{outputStyles}, nil
}

// outputStyles are the styles that hosts may offer.
var outputStyles = []string{"default"}

func (s *server) reloadSkills(ctx context.Context, session *engine.Session, _ struct{}) (any, error) {
	if _, err := session.Engine().Reload(ctx); err != nil {
		return nil, err
	}
	s.Messages.commandsChanged(commands(session))
	return struct {
		Skills []slashCommand `json:"skills"`
	}{commands(session)}, nil
}

// commands lists what can be typed after a slash.
func commands(s *engine.Session) []slashCommand {
	all := []slashCommand{}
	for _, c := range s.Now().Commands() {
		all = append(all, slashCommand{c.Name, c.Description, c.Hint, c.Kind == knack.CommandProgram})
	}
	return all
}

// A fileContent is the answer to read_file.
type fileContent struct {
	Contents  string `json:"contents"`
	Path      string `json:"absPath"`
	Truncated bool   `json:"truncated,omitempty"`
	Encoding  string `json:"encoding,omitempty"` // base64; "": UTF-8
	Lossy     *bool  `json:"lossy,omitempty"`    // for UTF-8: bytes were replaced
}

// maxReadFile limits the answer to read_file, in bytes.
const maxReadFile = 1 << 20

func (s *server) readFile(ctx context.Context, request json.RawMessage) (any, error) {
	in, err := parse[struct {
		Path     string `json:"path"`
		Most     int    `json:"max_bytes"`
		Encoding string `json:"encoding"`
	}](request)
	switch {
	case err != nil:
		return nil, err
	case in.Path == "":
		return nil, errors.New("the path is missing")
	case in.Encoding != "" && in.Encoding != "utf-8" && in.Encoding != "base64":
		return nil, fmt.Errorf("the encoding %q is not supported: utf-8 and base64 are", in.Encoding)
	}
	if in.Most <= 0 || in.Most > maxReadFile {
		in.Most = maxReadFile
	}
	session, err := s.start(ctx)
	if err != nil {
		return nil, err
	}
	data, path, more, err := session.ReadFile(ctx, in.Path, in.Most)
	if err != nil {
		return nil, err
	}
	out := fileContent{Path: path, Truncated: more}
	if in.Encoding == "base64" {
		out.Contents, out.Encoding = base64.StdEncoding.EncodeToString(data), "base64"
		return out, nil
	}
	lossy := !utf8.Valid(data)
	out.Contents, out.Lossy = strings.ToValidUTF8(string(data), "\uFFFD"), &lossy
	return out, nil
}

func (s *server) rename(ctx context.Context, session *engine.Session, in struct {
	Title   string `json:"title"`
	Session string `json:"session_id"`
}) (any, error) {
	switch {
	case strings.TrimSpace(in.Title) == "":
		return nil, errors.New("the title is missing")
	case in.Session != "" && in.Session != session.ID():
		return nil, fmt.Errorf("the session is %s, not %s", session.ID(), in.Session)
	}
	return nil, session.Set(ctx, sessionlog.Setting{Title: in.Title})
}

func (s *server) stopTask(ctx context.Context, session *engine.Session, in struct {
	Task string `json:"task_id"`
}) (any, error) {
	return nil, session.StopTask(in.Task)
}

// moveToBackground makes background commands of those that calls wait for.
func (s *server) moveToBackground(ctx context.Context, session *engine.Session, in struct {
	Call string `json:"tool_use_id"`
}) (any, error) {
	moved := session.MoveToBackground(in.Call)
	return struct {
		Moved bool `json:"backgrounded"`
	}{moved || in.Call == ""}, nil
}

// A taskOutput is the answer to get_task_output.
type taskOutput struct {
	Output    string `json:"output"`
	Total     int64  `json:"total_bytes"`
	Truncated bool   `json:"truncated"`
}

func (s *server) taskOutput(ctx context.Context, session *engine.Session, in struct {
	Task string `json:"task_id"`
}) (any, error) {
	text, total, err := session.TaskOutput(in.Task, 8<<10)
	if err != nil {
		return nil, err
	}
	return taskOutput{text, total, total > int64(len(text))}, nil
}

// cancelMessage removes a message of the host that no turn has read yet.
func (s *server) cancelMessage(_ context.Context, request json.RawMessage) (any, error) {
	in, err := parse[struct {
		ID string `json:"message_uuid"`
	}](request)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.prompts)
	s.prompts = slices.DeleteFunc(s.prompts, func(p prompt) bool { return in.ID != "" && p.id == in.ID })
	cancelled := len(s.prompts) < n || in.ID != "" && s.conversation != nil && s.conversation.Session().RemoveQueued(in.ID)
	return struct {
		Cancelled bool `json:"cancelled"`
	}{cancelled}, nil
}

// rewound is the answer to rewind_files.
type rewound struct {
	Can     bool     `json:"canRewind"`
	Error   string   `json:"error,omitempty"` // why nothing, or not everything, is restored
	Files   []string `json:"filesChanged,omitempty"`
	Added   int      `json:"insertions"` // lines
	Removed int      `json:"deletions"`
}

// rewindFiles brings files back to their state before a message of the user.
func (s *server) rewindFiles(ctx context.Context, session *engine.Session, in struct {
	Message string `json:"user_message_id"`
	DryRun  bool   `json:"dry_run"`
}) (any, error) {
	s.mu.Lock()
	running := s.stopTurn != nil
	s.mu.Unlock()
	if running {
		return rewound{Error: "a turn is running: interrupt it first"}, nil
	}
	entry, err := EntryOf(session.Log(), in.Message)
	if err != nil {
		return rewound{Error: err.Error()}, nil
	}
	files, ok := session.Part("undo").(interface {
		Plan(context.Context, int, checkpoint.Options) (checkpoint.Result, func(string) ([]byte, []byte, error), error)
		Restore(context.Context, int, checkpoint.Options) (checkpoint.Result, error)
	})
	if !ok {
		return rewound{Error: "this program keeps no files"}, nil
	}
	plan, contents, err := files.Plan(ctx, entry, checkpoint.Options{})
	if err != nil {
		return rewound{Error: err.Error()}, nil
	}
	out := rewound{Can: true}
	for _, f := range plan.Files {
		now, then, err := contents(f.Path)
		if err != nil || !utf8.Valid(now) || !utf8.Valid(then) {
			continue // its lines cannot be counted
		}
		for line := range strings.Lines(udiff.Unified("", "", string(now), string(then))) {
			switch {
			case strings.HasPrefix(line, "+++") || strings.HasPrefix(line, "---"):
			case line[0] == '+':
				out.Added++
			case line[0] == '-':
				out.Removed++
			}
		}
	}
	if !in.DryRun {
		if plan, err = files.Restore(ctx, entry, checkpoint.Options{}); err != nil {
			return rewound{Error: err.Error()}, nil
		}
	}
	for _, f := range plan.Files {
		out.Files = append(out.Files, f.Path)
	}
	var left []string
	for _, l := range plan.Left {
		left = append(left, l.Path+" ("+l.Why+")")
	}
	if len(left) > 0 {
		out.Can, out.Error = len(out.Files) > 0, "left as they are: "+strings.Join(left, ", ")
	}
	return out, nil
}
