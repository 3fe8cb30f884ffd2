package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/bench"
)

// kinds are the parts of a plugin that are used.
var kinds = []string{"plugin", "skill", "command", "agent", "hooks of a turn", "server"}

// A program is an agent that takes plugins.
type program struct {
	name, path string
	env        []string
	install    []string                               // arguments before the plugin
	calls      func(dir string) []string              // answers that call tools, so that hooks run
	agentTool  string                                 // the tool that calls an agent
	setup      func(h *home) error                    // before the first run; may be nil
	servers    func(h *home, plugin string) []*server // asks each server
}

// A server is what a program says about a server of a plugin.
type server struct {
	name, why string // name without the plugin's
	answered  bool
}

func knack(path string) *program {
	return &program{
		name: "Knack", path: path, install: []string{"plugin", "add", "--yes"}, agentTool: "Agent",
		calls: func(dir string) []string {
			return []string{bench.CallAnswer(1, "write", fmt.Sprintf(`{"path":%q,"content":"x"}`, filepath.Join(dir, "a.md"))),
				bench.CallAnswer(2, "bash", `{"command":"echo hello"}`)}
		},
		setup: func(h *home) error {
			settings := filepath.Join(h.dir, ".config", "knack", "settings.json")
			return errors.Join(os.MkdirAll(filepath.Dir(settings), 0o700),
				os.WriteFile(settings, []byte(`{"mcp": {"firstWait": 1}}`), 0o600))
		},
		servers: func(h *home, plugin string) (out []*server) {
			list, _, _ := h.run("mcp", "list")
			for line := range strings.Lines(list) {
				if f := strings.Fields(line); len(f) > 1 && strings.HasPrefix(f[0], "plugin:"+plugin+":") {
					_, stderr, err := h.runFor(serverWait, "mcp", "test", f[0])
					out = append(out, &server{strings.TrimPrefix(f[0], "plugin:"+plugin+":"), lastLine(stderr), err == nil})
				}
			}
			return out
		},
	}
}

// claude returns Claude Code, as named or on PATH.
func claude(named string) (*program, error) {
	name, path, ok := strings.Cut(named, "=")
	if name != "claude" {
		return nil, fmt.Errorf("-beside %s: only claude is known", name)
	}
	if !ok {
		var err error
		if path, err = exec.LookPath(name); err != nil {
			return nil, err
		}
	}
	return &program{
		name: "Claude Code", path: path, install: []string{"plugin", "install"}, agentTool: "Task",
		env: []string{
			// as root, it skips permissions only in a container
			"IS_SANDBOX=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_MAX_RETRIES=1",
			fmt.Sprintf("MCP_TIMEOUT=%d", serverWait.Milliseconds()),
		},
		calls: func(dir string) []string {
			return []string{
				bench.CallAnswer(1, "Write", fmt.Sprintf(`{"file_path":%q,"content":"x"}`, filepath.Join(dir, "a.md"))),
				bench.CallAnswer(2, "Bash", `{"command":"echo hello","description":"Say so"}`),
			}
		},
		servers: func(h *home, plugin string) (out []*server) {
			list, _, _ := h.run("mcp", "list")
			for line := range strings.Lines(list) {
				rest, ok := strings.CutPrefix(line, "plugin:"+plugin+":")
				if name, state, found := strings.Cut(rest, ": "); ok && found {
					out = append(out, &server{name, strings.TrimSpace(state), strings.Contains(state, "Connected")})
				}
			}
			return out
		},
	}, nil
}

// A count is how many parts of a kind there were, and how many were used.
type count struct{ of, used int }

// A driver runs programs with one plugin after the other.
type driver struct {
	tmp      string
	programs []*program
	verbose  bool
	server   *httptest.Server
	counts   map[string]*count
	homes    int
	rows     []row

	mu      sync.Mutex
	asked   bytes.Buffer // requests since the last run began
	answers []string     // what the next requests with tools get
}

func (d *driver) count(what string) *count {
	if d.counts[what] == nil {
		d.counts[what] = &count{}
	}
	return d.counts[what]
}

func (d *driver) note(what string, used bool, id, why string) {
	c := d.count(what)
	c.of++
	if used {
		c.used++
	} else if d.verbose {
		log.Printf("%s %s: %s", what, id, strings.TrimSpace(why))
	}
}

// answer is the model. Requests without tools are for titles and the like.
func (d *driver) answer(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if !strings.HasSuffix(r.URL.Path, "/messages") {
		io.WriteString(w, `{"input_tokens": 100}`)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked.Write(body)
	w.Header().Set("Content-Type", "text/event-stream")
	answer := bench.TextAnswer("done")
	if bytes.Contains(body, []byte(`"tools":[{`)) && len(d.answers) > 0 {
		answer, d.answers = d.answers[0], d.answers[1:]
	}
	io.WriteString(w, answer)
}

// A home is where one plugin is installed in one program.
type home struct {
	*driver
	*program
	dir, work string
}

func (d *driver) newHome(p *program) (*home, error) {
	d.homes++
	h := &home{driver: d, program: p, dir: filepath.Join(d.tmp, fmt.Sprint(d.homes))}
	h.work = filepath.Join(h.dir, "work")
	if err := os.MkdirAll(filepath.Join(h.work, ".git"), 0o700); err != nil {
		return nil, err
	}
	if p.setup != nil {
		return h, p.setup(h)
	}
	return h, nil
}

func (h *home) run(args ...string) (stdout, stderr string, err error) {
	return h.runFor(2*time.Minute, args...)
}

// serverWait is how long a server may take to answer.
const serverWait = 40 * time.Second

func (h *home) runFor(limit time.Duration, args ...string) (stdout, stderr string, err error) {
	h.mu.Lock()
	h.asked.Reset()
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.path, args...)
	cmd.Dir, cmd.WaitDelay = h.work, time.Second
	cmd.Env = append([]string{"HOME=" + h.dir, "PATH=" + os.Getenv("PATH"), "ANTHROPIC_API_KEY=sk-ant-k",
		"ANTHROPIC_BASE_URL=" + h.server.URL}, h.env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// A session is what a program said in one run.
type session struct {
	typed, agents []string          // names of the plugin's parts
	hooks         map[string]string // event: what its hooks said that failed, "": none
	said          []string          // a line of each text that hooks added
	asked         string
	why           string
}

// ask runs one prompt.
func (h *home) ask(plugin, prompt string, answers ...string) *session {
	h.mu.Lock()
	h.answers = answers
	h.mu.Unlock()
	stdout, stderr, err := h.run("-p", "--output-format", "stream-json", "--verbose", "--include-hook-events",
		"--dangerously-skip-permissions", "--max-turns", "5", prompt)
	s := &session{hooks: map[string]string{}}
	if err != nil {
		s.why = fmt.Sprint(err, " ", stderr)
	}
	for line := range strings.Lines(stdout) {
		var m struct {
			Subtype  string
			Commands []string `json:"slash_commands"`
			Agents   []string
			Event    string `json:"hook_event"`
			Stdout   string
			Stderr   string
			Code     int `json:"exit_code"`
		}
		if json.Unmarshal([]byte(line), &m) != nil {
			continue
		}
		switch m.Subtype {
		case "init":
			s.typed, s.agents = ofPlugin(plugin, m.Commands), ofPlugin(plugin, m.Agents)
		case "hook_response":
			if m.Code != 0 {
				s.hooks[m.Event] += strings.TrimSpace(m.Stderr)
			} else if _, ok := s.hooks[m.Event]; !ok {
				s.hooks[m.Event] = ""
			}
			if text := added(m.Event, m.Stdout); text != "" {
				s.said = append(s.said, text)
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.asked = h.asked.String()
	return s
}

func ofPlugin(plugin string, names []string) []string {
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, plugin+":") })
	slices.Sort(names)
	return slices.Compact(names)
}

// added returns a line of what a hook's output adds to the conversation.
func added(event, stdout string) string {
	var out struct {
		Specific struct {
			Context string `json:"additionalContext"`
		} `json:"hookSpecificOutput"`
	}
	if json.Unmarshal([]byte(stdout), &out) == nil {
		return lastLine(out.Specific.Context)
	}
	if event == "SessionStart" || event == "UserPromptSubmit" {
		return lastLine(stdout)
	}
	return ""
}

// has reports whether a line of a file is in a request of the run.
func (s *session) has(line string) bool {
	text, err := json.Marshal(line)
	plain := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&")
	return err == nil && line != "" && strings.Contains(plain.Replace(s.asked), plain.Replace(string(text[1:len(text)-1])))
}

// parts are what Knack says that a plugin has.
type parts struct {
	Skills, Commands, Agents []string
	lines                    map[string]string // name: a line of its text
}

// drive installs a plugin in each program and uses its parts.
func (d *driver) drive(m *market, name string) error {
	r := row{id: name + "@" + m.name}
	var p parts
	for i, prog := range d.programs {
		h, err := d.newHome(prog)
		if err != nil {
			return err
		}
		o := &outcome{}
		r.of = append(r.of, o)
		if _, stderr, err := h.run("plugin", "marketplace", "add", m.dir); err != nil {
			o.refused = stderr
		} else if _, stderr, err := h.run(append(slices.Clone(prog.install), r.id)...); err != nil {
			o.refused = stderr
		}
		if i == 0 {
			d.note("plugin", o.refused == "", r.id, o.refused)
			if o.refused == "" {
				if p, err = h.parts(r.id); err != nil {
					return err
				}
			}
		}
		if o.refused == "" {
			h.use(o, name, &p)
		}
		if i == 0 {
			d.countParts(r.id, o)
		}
		os.RemoveAll(h.dir)
	}
	d.rows = append(d.rows, r)
	if d.verbose && len(d.programs) > 1 {
		for _, line := range r.differences(d.programs) {
			log.Print(line)
		}
	}
	return nil
}

// An outcome is what a program did with a plugin.
type outcome struct {
	refused string
	names   map[string][]string          // kind: names that the session has
	listed  map[string][]string          // kind: of them, those that the model was told
	used    map[string]map[string]string // kind: name: why not, "": used
}

func (o *outcome) set(kind, name string, ok bool, why string) {
	if o.used[kind] == nil {
		o.used[kind] = map[string]string{}
	}
	if ok {
		why = ""
	} else if why == "" {
		why = "its text did not reach the model"
	}
	o.used[kind][name] = strings.TrimSpace(why)
}

func (h *home) use(o *outcome, plugin string, p *parts) {
	o.used, o.names, o.listed = map[string]map[string]string{}, map[string][]string{}, map[string][]string{}
	s := h.ask(plugin, "go", h.calls(h.work)...)
	o.names["skill or command"], o.names["agent"] = s.typed, s.agents
	for kind, names := range o.names {
		for _, name := range names {
			if strings.Contains(s.asked, name) {
				o.listed[kind] = append(o.listed[kind], name)
			}
		}
	}
	for event, why := range s.hooks {
		o.set("hooks of a turn", event, why == "", why)
	}
	for _, line := range s.said {
		o.set("text of a hook", line[:min(40, len(line))], s.has(line), s.why)
	}
	for kind, names := range map[string][]string{"skill": p.Skills, "command": p.Commands} {
		if len(names) == 0 {
			continue
		}
		s := h.ask(plugin, "/"+names[0]+" x")
		o.set(kind, names[0], s.has(p.lines[names[0]]), s.why)
	}
	if len(p.Agents) > 0 {
		name := p.Agents[0]
		input, _ := json.Marshal(map[string]string{"prompt": "look", "description": "look", "subagent_type": name})
		s := h.ask(plugin, "go", bench.CallAnswer(1, h.agentTool, string(input)))
		o.set("agent", name, s.has(p.lines[name]), s.why)
	}
	for _, server := range h.servers(h, plugin) {
		o.set("server", server.name, server.answered, server.why)
	}
}

func (d *driver) countParts(id string, o *outcome) {
	for _, kind := range kinds[1:] {
		for _, name := range slices.Sorted(maps.Keys(o.used[kind])) {
			why := o.used[kind][name]
			d.note(kind, why == "", id+" "+name, why)
		}
	}
}

// parts asks Knack what a plugin has. The first skill and command are those that a user may type.
func (h *home) parts(id string) (p parts, err error) {
	shown, _, err := h.run("plugin", "show", id, "--json")
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal([]byte(shown), &p); err != nil {
		return p, err
	}
	p.lines = map[string]string{}
	for _, names := range []*[]string{&p.Skills, &p.Commands} {
		for len(*names) > 0 {
			name := (*names)[0]
			out, _, _ := h.run("skill", "show", name, "--json")
			var shown struct{ Body string }
			if json.Unmarshal([]byte(out), &shown) == nil && !strings.Contains(out, `"user-invocable": false`) {
				p.lines[name] = lastLine(shown.Body)
				break
			}
			*names = (*names)[1:]
		}
	}
	for _, name := range p.Agents[:min(1, len(p.Agents))] {
		p.lines[name] = h.agentLine(name)
	}
	return p, nil
}

// agentLine returns a line of an agent's prompt. The name in its file calls it.
func (h *home) agentLine(name string) string {
	line := ""
	base := name[strings.LastIndexByte(name, ':')+1:]
	plugins := filepath.Join(h.dir, ".local", "share", "knack", "plugins")
	filepath.WalkDir(plugins, func(path string, _ os.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" || !strings.Contains(path, "agents") {
			return nil
		}
		data, _ := os.ReadFile(path)
		if bytes.Contains(data, []byte("\nname: "+base+"\n")) {
			line = lastLine(string(data))
		}
		return nil
	})
	return line
}
