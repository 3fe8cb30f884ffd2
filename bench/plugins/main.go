// Command plugins installs plugins of public marketplaces and uses a part of each kind that they have: a skill, a
// command, an agent, the hooks of a turn, and each server that is a program.
//
//	go run ./plugins [-each 3] [-v] DIR
//
// DIR has clones of repositories with marketplaces. Each plugin gets a home of its own. The model is scripted; a part
// counts as used if what the plugin's file says reached the model, hooks if none failed, a server if it answered.
// Hooks and servers run in the sandbox: those whose programs or networks are missing here fail.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/bench"
)

func main() {
	bench.Launched()
	log.SetFlags(0)
	log.SetPrefix("plugins: ")
	each := flag.Int("each", 3, "plugins of each marketplace; 0: all")
	verbose := flag.Bool("v", false, "print what failed")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("which directory has the clones?")
	}
	if err := run(flag.Arg(0), *each, *verbose); err != nil {
		log.Fatal(err)
	}
}

// A count is how many parts of a kind there were, and how many were used.
type count struct{ of, used int }

func run(dir string, each int, verbose bool) error {
	tmp, err := os.MkdirTemp("", "knack-plugins-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	d := &driver{tmp: tmp, program: filepath.Join(tmp, "knack"), counts: map[string]*count{}, verbose: verbose}
	if err := bench.Build(d.program, "github.com/knack-agent/knack/cmd/knack"); err != nil {
		return err
	}
	d.server = httptest.NewServer(http.HandlerFunc(d.answer))
	defer d.server.Close()
	clones, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	for _, clone := range clones {
		names, err := d.localPlugins(clone)
		if err != nil {
			log.Printf("%s: %v", filepath.Base(clone), err)
			continue
		}
		if each > 0 {
			names = names[:min(each, len(names))]
		}
		for _, name := range names {
			if err := d.drive(clone, name); err != nil {
				return err
			}
		}
	}
	table := bench.Table{Title: "Plugins", Head: []string{"what", "parts", "used"}}
	for _, what := range []string{"plugin", "skill", "command", "agent", "hooks of a turn", "server"} {
		c := d.count(what)
		table.Add(what, c.of, c.used)
	}
	return table.Write(os.Stdout)
}

// A driver runs the program with one plugin after the other.
type driver struct {
	tmp, program string
	verbose      bool
	server       *httptest.Server
	counts       map[string]*count
	homes        int

	mu    sync.Mutex
	asked bytes.Buffer // requests since the last run began
	agent string       // the agent that the next request calls; "": none
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

// answer is the model: it calls an agent once if it should, and a tool so that its hooks run.
func (d *driver) answer(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	io.Copy(&d.asked, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	if name := d.agent; name != "" {
		d.agent = ""
		input, _ := json.Marshal(map[string]string{"prompt": "look", "description": "look", "subagent_type": name})
		io.WriteString(w, bench.CallAnswer(1, "Agent", string(input)))
		return
	}
	io.WriteString(w, bench.TextAnswer("done"))
}

// localPlugins returns the plugins of a marketplace whose files are in it.
func (d *driver) localPlugins(clone string) (names []string, err error) {
	var list struct {
		Plugins []struct {
			Name   string
			Source json.RawMessage
		}
	}
	for _, name := range []string{".claude-plugin/marketplace.json", ".agents/plugins/marketplace.json",
		".github/plugin/marketplace.json", "marketplace.json"} {
		data, err := os.ReadFile(filepath.Join(clone, name))
		if err != nil {
			continue
		}
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, err
		}
		break
	}
	for _, p := range list.Plugins {
		if bytes.HasPrefix(p.Source, []byte(`"`)) || bytes.Contains(p.Source, []byte(`"local"`)) {
			names = append(names, p.Name)
		}
	}
	return names, nil
}

// A home is where one plugin is installed.
type home struct {
	*driver
	dir string
	env []string
}

func (h *home) run(args ...string) (stdout, stderr string, err error) {
	h.mu.Lock()
	h.asked.Reset()
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.program, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = filepath.Join(h.dir, "work"), h.env, time.Second
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// reached reports whether a line of a file is in a request.
func (h *home) reached(line string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	text, err := json.Marshal(line)
	plain := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&")
	return err == nil && line != "" && strings.Contains(plain.Replace(h.asked.String()),
		plain.Replace(string(text[1:len(text)-1])))
}

// drive installs a plugin and uses its parts.
func (d *driver) drive(clone, name string) error {
	d.homes++
	h := &home{driver: d, dir: filepath.Join(d.tmp, fmt.Sprint(d.homes))}
	defer os.RemoveAll(h.dir)
	settings := filepath.Join(h.dir, ".config", "knack", "settings.json")
	if err := errors.Join(os.MkdirAll(filepath.Join(h.dir, "work", ".git"), 0o700),
		os.MkdirAll(filepath.Dir(settings), 0o700),
		os.WriteFile(settings, []byte(`{"mcp": {"firstWait": 1}}`), 0o600)); err != nil {
		return err
	}
	h.env = []string{"HOME=" + h.dir, "PATH=" + os.Getenv("PATH"), "ANTHROPIC_API_KEY=k",
		"ANTHROPIC_BASE_URL=" + d.server.URL}
	if _, stderr, err := h.run("plugin", "marketplace", "add", clone); err != nil {
		d.note("plugin", false, name, stderr)
		return nil
	}
	list, _, err := h.run("plugin", "marketplace", "list")
	if err != nil {
		return err
	}
	id := name + "@" + strings.Fields(strings.Split(list, "\n")[1])[0]
	_, stderr, err := h.run("plugin", "add", id, "--yes")
	d.note("plugin", err == nil, id, stderr)
	if err != nil {
		return nil
	}
	shown, _, err := h.run("plugin", "show", id, "--json")
	if err != nil {
		return err
	}
	var page struct {
		Skills, Commands, Agents []string
		Runs                     []struct{ What string }
	}
	if err := json.Unmarshal([]byte(shown), &page); err != nil {
		return err
	}
	for what, names := range map[string][]string{"skill": page.Skills, "command": page.Commands} {
		names = slices.DeleteFunc(names, func(name string) bool { return !h.isTyped(name) })
		if len(names) == 0 {
			continue
		}
		line := h.skillLine(names[0])
		_, stderr, err := h.run("-p", "--max-turns", "3", "/"+names[0]+" x")
		d.note(what, err == nil && h.reached(line), names[0], fmt.Sprint(err, " ", stderr, line))
	}
	if len(page.Agents) > 0 {
		d.agent = page.Agents[0]
		_, stderr, err := h.run("-p", "--max-turns", "3", "go")
		line := h.agentLine(page.Agents[0])
		d.note("agent", err == nil && h.reached(line), page.Agents[0], fmt.Sprint(err, " ", stderr, line))
	}
	hooks := func(r struct{ What string }) bool { return strings.HasPrefix(r.What, "hook on ") }
	if slices.ContainsFunc(page.Runs, hooks) {
		_, stderr, err := h.run("-p", "go")
		d.note("hooks of a turn", err == nil && !strings.Contains(stderr, "knack: hook:"), id, fmt.Sprint(err, " ", stderr))
	}
	servers, _, _ := h.run("mcp", "list")
	for line := range strings.Lines(servers) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == "stdio" {
			_, stderr, err := h.run("mcp", "test", f[0])
			d.note("server", err == nil, f[0], stderr)
		}
	}
	return nil
}

// variables are what is replaced in a text.
var variables = regexp.MustCompile("[$`\\\\{}\"]")

// lastLine returns the last line that is in a request as it is in the file.
func lastLine(text string) string {
	lines := strings.Split(text, "\n")
	for _, line := range slices.Backward(lines) {
		if line = strings.TrimSpace(line); len(line) > 10 && !variables.MatchString(line) {
			return line
		}
	}
	return ""
}

// isTyped reports whether a user may call a skill.
func (h *home) isTyped(name string) bool {
	out, _, _ := h.run("skill", "show", name, "--json")
	return !strings.Contains(out, `"user-invocable": false`)
}

// skillLine returns a line of a skill or command.
func (h *home) skillLine(name string) string {
	out, _, _ := h.run("skill", "show", name, "--json")
	var shown struct{ Body string }
	if json.Unmarshal([]byte(out), &shown) != nil {
		return ""
	}
	return lastLine(shown.Body)
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
