// Package own is the part with the tools and commands that users and projects write themselves, as programs in any
// language.
//
// A tool is an executable file NAME in the directory tools of the user's configuration, or in .knack/tools of a project,
// which says so in a comment in its first 20 lines:
//
//	#!/bin/sh
//	# knack-tool: {"description": "Lists what is open.", "inputSchema": {"type": "object"}}
//
// or has a file NAME.json with that object beside it, which may also name another command, in which ./FILE is a file
// beside it. A command, which the user types as /NAME, is an executable file in commands of the user's configuration or in
// .knack/commands, with a comment "knack-command: DESCRIPTION". Other files there are plain files. Nothing is run to find
// out what a file is. What programs get and print is told by [coding.RunProgram] and [reply].
//
// A plugin has tools in its folder tools, too, and so has a skill, whose tools exist while it is in use: a session that
// never uses it is told nothing of them. In rules they are Tool(PLUGIN:NAME) and Tool(SKILL:NAME), so that a rule for
// another tool of that name does not cover them.
//
// A call of a tool needs a rule Tool(NAME) or the user's answer, whatever effect the definition declares; to type a command
// is an answer. Both run in the sandbox, as bash does. The bytes of a project's programs, and of all other files in their
// directory, must be approved, when the session begins and before each call.
package own

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// Part is the part of own tools and commands.
func Part() engine.Part {
	return engine.Part{Name: name, Open: open,
		Problems: func(b engine.Brought) []knack.Problem { return find(b).problems },
		Brings:   func(b engine.Brought) []engine.Command { return find(b).slash() },
		Known: func(b engine.Brought) engine.PartTools {
			return engine.PartTools{Placed: tools(nil, find(b).tools, engine.Place{}, coding.Options{})}
		}}
}

const name = "own"

// live is the part in a session.
type live struct {
	conv *engine.Conv

	mu     sync.Mutex
	coding coding.Options // of the session's own tools
	skills map[*knack.Skill][]*Program

	processes map[string]*process // by their file and the directory in which they work
	closed    bool                // the session has ended
}

func open(_ context.Context, c *engine.Conv) (*engine.Live, error) {
	l := &live{conv: c}
	return &engine.Live{Value: l, SkillTools: l.ofSkill, Hooks: l.hooks, Close: l.closeProcesses, Placed: func(
		in engine.Place, o coding.Options) tool.Set {
		l.mu.Lock()
		defer l.mu.Unlock()
		if in.Worktree == "" {
			l.coding = o
		}
		return tools(l, find(c.Project().Brought).tools, in, o)
	}}, nil
}

// Tools returns the tools as they work in a workspace without a conversation.
func Tools(b engine.Brought, ws workspace.Workspace, o coding.Options) tool.Set {
	return tools(nil, outsideOf(b, find(b).tools), engine.Place{Workspace: ws}, o)
}

// outsideOf returns programs that know how they run outside the sandbox without a session.
func outsideOf(b engine.Brought, programs []*Program) (all []*Program) {
	for _, p := range programs {
		one := *p
		one.asUser = b.AsUser
		all = append(all, &one)
	}
	return all
}

// tools returns programs as tools that work in a place. l has the processes that stay; nil: none does.
func tools(l *live, programs []*Program, in engine.Place, o coding.Options) (set tool.Set) {
	for _, p := range programs {
		set = append(set, p.tool(l, in, o))
	}
	return set
}

// A Program is a tool or a command that is a program.
type Program struct {
	Name string
	Path string // of the file that defines it, absolute

	definition definition                           // what its file says
	folder     string                               // of a project, to be approved as a whole; "": the user's
	check      func(file string, data []byte) error // of folder
	program    string                               // the file that runs; "": Command names a program of the PATH
	sum        [sha256.Size]byte                    // of program
	mine       bool                                 // it lies in the user's configuration directory

	// Of the tool of a skill or plugin; "" and nil: it belongs to none.
	owner, of string       // its name, and what it is: skill, plugin
	dir       string       // its folder, which the tool may read
	verify    func() error // whether a skill is what was approved or installed

	process *Program // that answers the calls, and stays; nil: each call starts the program

	asUser asUser // see engine.Brought, for a tool without a session
}

// asUser is the type of [engine.Brought.AsUser].
type asUser = func(set []string, files ...string) (func(environ []string) []string, error)

const (
	maxProgram    = 64 << 20 // bytes of a program; what a project has is limited by what can be approved
	maxDefinition = 1 << 20  // bytes of a NAME.json
	maxPrograms   = 1000     // names in a directory
)

// found is what the user and a project bring.
type found struct {
	tools, commands []*Program
	processes       []*Program // whose tools and commands are among these
	problems        []knack.Problem
}

// find returns what there is, which is looked for once in each project.
func find(b engine.Brought) *found {
	f := b.Keep(name, func() any {
		f := &found{}
		f.tools = f.search(b, toolMark, "a tool of Knack", b.Names)
		f.commands = f.search(b, commandMark, "a command of Knack", b.CommandNames)
		f.expand(b)
		return f
	}).(*found)
	if len(b.Plugins) == 0 {
		return f
	}
	return b.Keep(name+" of plugins", func() any { return f.withPlugins(b) }).(*found)
}

// expand puts the tools and commands of processes in the place of these.
func (f *found) expand(b engine.Brought) {
	names := func(known func() []string, programs []*Program) map[string]bool {
		taken := map[string]bool{}
		if known != nil {
			for _, name := range known() {
				taken[strings.ToLower(name)] = true
			}
		}
		for _, p := range programs {
			if p.definition.Type == "" {
				taken[strings.ToLower(p.Name)] = true
			}
		}
		return taken
	}
	var all, processes []*Program
	for _, p := range f.tools {
		if p.definition.Type == "" || slices.Contains(f.processes, p) {
			all = append(all, p)
		} else {
			processes = append(processes, p)
		}
	}
	if len(processes) == 0 {
		return
	}
	tools, commands := names(b.Names, f.tools), names(b.CommandNames, f.commands)
	add := func(to *[]*Program, taken map[string]bool, m mark, parts []*Program) {
		for _, p := range parts {
			if key := strings.ToLower(p.Name); taken[key] {
				f.problems = append(f.problems, knack.Problem{Code: knack.CodeNameCollision, Severity: knack.Warn, Path: p.Path,
					Message: fmt.Sprintf("the %s %s is not used: there is another of that name", m.what(), p.Name),
					Hint:    "give it another name"})
			} else {
				taken[key] = true
				*to = append(*to, p)
			}
		}
	}
	f.tools = all
	for _, p := range processes {
		add(&f.tools, tools, toolMark, p.parts(p.definition.Tools))
		add(&f.commands, commands, commandMark, p.parts(p.definition.Commands))
	}
	f.processes = append(f.processes, processes...)
}

// withPlugins adds the tools of plugins. Their commands are templates.
func (f *found) withPlugins(b engine.Brought) *found {
	all := *f
	all.tools, all.problems = slices.Clone(f.tools), slices.Clone(f.problems)
	all.commands, all.processes = slices.Clone(f.commands), slices.Clone(f.processes)
	s := &searcher{found: &all, mark: toolMark, whose: "a tool of Knack", reserved: b.Names, taken: map[string]string{}}
	for _, p := range f.tools {
		s.taken[strings.ToLower(p.Name)] = "the one in " + filepath.Dir(p.Path)
	}
	for _, plugin := range b.Plugins {
		all.tools = append(all.tools, s.add(filepath.Join(plugin.Dir, "tools"), plugin.Check, plugin, false)...)
	}
	all.expand(b)
	return &all
}

// Find returns the tools, the user's first, then those of the nearest directory of a project, then those of plugins. A
// tool whose name is taken is left out, because a rule of the user for the name was not meant for it, and so is one
// that is not approved; the problems, which are also those of commands, say so.
func Find(b engine.Brought) (programs []*Program, problems []knack.Problem) {
	f := find(b)
	return f.tools, f.problems
}

// Commands returns the commands, in the order of Find.
func Commands(b engine.Brought) []*Program { return find(b).commands }

// search returns what has a mark, and adds to the problems. reserved, if not nil, returns the names that nobody may have
// except whoever is named.
func (f *found) search(b engine.Brought, m mark, whose string, reserved func() []string) (programs []*Program) {
	s := &searcher{found: f, mark: m, whose: whose, reserved: reserved, taken: map[string]string{}}
	if b.User != "" {
		programs = s.add(filepath.Join(b.User, m.what()+"s"), nil, engine.PluginDir{}, true)
	}
	row := layout.Rows(m.kind())[0]
	for _, dir := range b.Dirs {
		at := filepath.Join(dir, filepath.FromSlash(row.Path))
		programs = append(programs, s.add(at, b.Check, engine.PluginDir{}, false)...)
	}
	return programs
}

// A searcher searches directories one after the other: a name that was found is not free any more.
type searcher struct {
	*found
	mark     mark
	whose    string          // who has the reserved names
	reserved func() []string // called once, if there is anything; nil: there are none
	taken    map[string]string
}

// add returns what a directory adds, with check and mine as in findIn. The zero plugin is none.
func (s *searcher) add(dir string, check func(string, []byte) error, plugin engine.PluginDir, mine bool) (
	programs []*Program) {
	found, bad := findIn(dir, s.mark, check, mine)
	s.problems = append(s.problems, bad...)
	if len(found) > 0 && s.reserved != nil {
		for _, name := range s.reserved() {
			s.taken[strings.ToLower(name)] = s.whose
		}
		s.reserved = nil
	}
	for _, p := range found {
		if plugin.Name != "" {
			p.owner, p.of, p.dir = plugin.Name, "plugin", plugin.Dir
		}
		key := strings.ToLower(p.Name)
		if other, ok := s.taken[key]; ok {
			s.problems = append(s.problems, knack.Problem{Code: knack.CodeNameCollision, Severity: knack.Warn,
				Path: p.Path, Message: fmt.Sprintf("the %s %s is not used: %s has that name", s.mark.what(), p.Name, other),
				Hint: "rename the file"})
			continue
		}
		s.taken[key] = "the one in " + filepath.Dir(p.Path)
		programs = append(programs, p)
	}
	return programs
}

// findIn returns what has a mark in a directory. check is that of a project; nil: nobody approves the files. mine means
// that it lies in the user's configuration directory.
func findIn(dir string, m mark, check func(string, []byte) error, mine bool) (programs []*Program,
	problems []knack.Problem) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	bad := func(path string, err error) {
		var p knack.Problem
		if !errors.As(err, &p) {
			p = knack.Problem{Code: knack.CodeUnreadable, Severity: knack.Warn, Path: path,
				Message: "the " + m.what() + " is left out: " + err.Error(), Hint: "knack help tools"}
		}
		same := func(q knack.Problem) bool { return q.Path == p.Path && q.Message == p.Message }
		if !slices.ContainsFunc(problems, same) { // one file that is not approved closes all tools of its directory
			problems = append(problems, p)
		}
	}
	if err != nil {
		bad(dir, err)
		return nil, problems
	}
	files := map[string][]string{} // by the name without suffixes
	for _, e := range entries {
		name := stem(e.Name())
		switch {
		case name == "" || m == commandMark && strings.EqualFold(filepath.Ext(e.Name()), ".md"): // a template
		case e.IsDir():
			for _, path := range misplaced(filepath.Join(dir, e.Name()), m) {
				bad(path, fmt.Errorf("it must be directly in %s", dir))
			}
		default:
			files[name] = append(files[name], e.Name())
		}
	}
	for i, name := range slices.Sorted(maps.Keys(files)) {
		if i == maxPrograms {
			bad(dir, fmt.Errorf("it has more than %d names; from %s on nothing is looked at", maxPrograms, name))
			break
		}
		p, err := load(dir, name, files[name], m, check, mine)
		switch {
		case err != nil:
			bad(filepath.Join(dir, files[name][0]), err)
		case p != nil:
			programs = append(programs, p)
		}
	}
	return programs, problems
}

// misplaced returns the programs in a subdirectory that have a mark: their authors expect that they are used.
func misplaced(dir string, m mark) (paths []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries[:min(len(entries), maxPrograms)] {
		if info, err := e.Info(); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if begin, err := beginning(path); err == nil {
			if _, ok := inHead(begin, m); ok {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// beginning returns the bytes of a program that are looked at for a mark.
func beginning(path string) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxHead))
}

// stem is the name of the tool or command that a file may be; "": a hidden file.
func stem(file string) string {
	name, _, _ := strings.Cut(file, ".")
	return name
}

// load reads the tool or command that files of one name may be; nil: they are plain files.
func load(dir, name string, files []string, m mark, check func(string, []byte) error, mine bool) (*Program, error) {
	p := &Program{Name: name, mine: mine}
	if check != nil {
		p.folder, p.check = dir, check
	}
	text := ""
	late := 0 // the line of a mark that is too far below
	for _, file := range files {
		path := filepath.Join(dir, file)
		if file == name+".json" && m == toolMark {
			data, err := regular.Read(path, maxDefinition)
			if err != nil {
				return nil, err
			}
			text, p.Path = string(data), path
			continue
		}
		begin, err := beginning(path)
		if err != nil {
			return nil, err
		}
		head, line := commented(begin, m)
		ok := 0 < line && line <= headLines
		if line > headLines {
			if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
				late = line
			}
		}
		if p.program != "" && !ok {
			continue // a plain file beside the program
		}
		p.program = path
		if ok && p.Path == "" {
			text, p.Path = head, path
		}
	}
	if p.Path == "" {
		if late > 0 {
			return nil, fmt.Errorf("its line %d has %s, which counts only in the first %d lines", late, m, headLines)
		}
		return nil, nil
	}
	if check != nil { // before anything of it is used
		if err := p.approved(); err != nil {
			return nil, err
		}
	}
	d, err := parse(text, m)
	if err != nil {
		return nil, err
	}
	p.definition = *d
	switch {
	case d.outside() && !mine:
		return nil, errNotYours
	case CheckName(name) != nil:
		return nil, CheckName(name)
	case d.Name != "" && d.Name != name:
		return nil, fmt.Errorf("its name is %q, and its file's is %q", d.Name, name)
	case d.Command != nil:
		p.program = d.programIn(dir)
		if p.program == "" && check != nil && strings.ContainsAny(d.Command[0], `/\\`) {
			return nil, fmt.Errorf("command: %q is neither a program of the PATH nor ./FILE beside the definition, so its "+
				"bytes would not be approved", d.Command[0])
		}
	case p.program == "":
		return nil, fmt.Errorf("it has no command, and there is no program %s beside it", name)
	}
	if p.program != "" {
		program, err := regular.Read(p.program, maxProgram)
		if err == nil && check != nil {
			err = check(p.program, program) // these bytes, whatever was there a moment ago
		}
		if err != nil {
			return nil, err
		}
		p.sum = sha256.Sum256(program)
		if info, err := os.Stat(p.program); err != nil || runtime.GOOS != "windows" && info.Mode()&0o111 == 0 {
			return nil, fmt.Errorf("%s is not executable: chmod +x %s", filepath.Base(p.program), p.program)
		}
	}
	return p, nil
}

// approved checks all files of the project's directory: programs read each other.
func (p *Program) approved() error {
	return layout.EachFile(p.folder, maxProgram, func(path string, data []byte, err error) error {
		if err == nil {
			err = p.check(path, data)
		}
		return err
	})
}

// maxEnv is how much input KNACK_TOOL_INPUT has, in bytes: systems limit the environment of a program.
const maxEnv = 100 << 10

// Description is what the model is told about the tool.
func (p *Program) Description() string { return p.definition.Description }

// tool returns the tool as it works in a place.
func (p *Program) tool(l *live, in engine.Place, o coding.Options) tool.Tool {
	t := tool.Tool{Name: p.Name, Description: p.definition.Description, Schema: p.definition.InputSchema,
		Origin: p.origin(), Ordered: true,
		Effect: tool.Effect(p.definition.Effect) | tool.Reads | tool.Writes | tool.Runs}
	if p.definition.Summary != "" {
		t.Summary = p.definition.summary
	}
	t.Subjects = func(_ context.Context, input json.RawMessage) ([]permission.Subject, error) {
		if err := p.unchanged(); err != nil {
			return nil, err
		}
		return p.subjects(l, in.Workspace, input)
	}
	t.Run = func(ctx context.Context, call tool.Input) (tool.Result, error) {
		return p.run(ctx, l, in.Workspace, o, call)
	}
	return t
}

func (p *Program) origin() string {
	switch {
	case p.owner != "":
		return "the tool " + p.Path + " of the " + p.of + " " + p.owner
	case p.folder == "":
		return "your tool " + p.Path
	}
	return "the project's tool " + p.Path
}

// subjects returns what is decided about a call. What the definition declares only adds to the question.
func (p *Program) subjects(l *live, ws workspace.Workspace, input json.RawMessage) ([]permission.Subject, error) {
	all := []permission.Subject{p.subject(l, p.rule(), p.line())}
	for what, path := range p.definition.Subjects {
		texts, err := textsAt(input, path)
		if err != nil {
			return nil, err
		}
		for _, text := range texts {
			if what == "url" {
				all = append(all, permission.Subject{Kind: permission.KindWebFetch, Text: text})
				continue
			}
			file := ws.Path(text)
			if what != "write" {
				all = append(all, permission.Subject{Kind: permission.KindRead, Text: file})
			}
			if what == "write" || what == "path" && tool.Effect(p.definition.Effect)&tool.Writes != 0 {
				all = append(all, permission.Subject{Kind: permission.KindEdit, Text: file})
			}
		}
	}
	return all, nil
}

// rule is what a rule for the tool has in its parentheses.
func (p *Program) rule() string {
	if p.owner != "" {
		return p.owner + ":" + p.Name
	}
	return p.Name
}

// line is the command that runs, for people.
func (p *Program) line() string {
	if p.definition.Command == nil {
		return p.program
	}
	return strings.Join(p.definition.Command, " ")
}

// run runs a call.
func (p *Program) run(ctx context.Context, l *live, ws workspace.Workspace, o coding.Options,
	call tool.Input) (tool.Result, error) {
	if !call.Allows(permission.KindTool, p.rule()) {
		return tool.Result{}, errChanged
	}
	if p.process != nil {
		return p.runProcess(ctx, l, ws, o, call)
	}
	c := workspace.Command{Stdin: bytes.NewReader(call.JSON), Env: []string{"KNACK_TOOL_NAME=" + p.Name}}
	if len(call.JSON) <= maxEnv {
		c.Env = append(c.Env, "KNACK_TOOL_INPUT="+string(call.JSON))
	}
	c, err := p.prepare(ws, c)
	if err == nil {
		c.AsUser, err = p.outside(l, call, c.Env)
	}
	if err != nil {
		return tool.Result{}, err
	}
	res := coding.RunProgram(ctx, ws, c, p.definition.timeout(), call, o)
	for i, path := range res.Touched {
		res.Touched[i] = ws.Path(path)
	}
	return res, nil
}

var errChanged = errors.New("the call changed after it was allowed: it was not run")
