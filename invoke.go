package knack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/knack-agent/knack/internal/leaf/ignore"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A Caller says who invokes a skill.
type Caller uint8

const (
	ByUser Caller = iota
	ByModel
)

// A Shell runs one inline command of a skill's text in the working directory and returns
// its output, which replaces the command: stdout, then stderr if there is any, truncated
// like the output of the bash tool. line refers to arguments only through the variables
// of env (KNACK_ARG_0=…), which the Shell must set; permission is decided on line with
// their values. An error fails the whole invocation; a command that is not allowed or
// exits with another status than 0 must return one. a is the Activation under
// construction: its Grants and Denies apply to the skill's own commands. If
// a.Skill.Shell is powershell, line is a PowerShell command, and no other shell may run
// it.
type Shell func(ctx context.Context, a *Activation, line string, env []string) (string, error)

// A File returns what the model sees of the file at path, which is relative to the working directory. ok is false if
// there is no such file, or none of text: @path then stays text. An error, such as that the file may not be read, is
// reported, and the invocation goes on without it. a is as in Shell.
type File func(ctx context.Context, a *Activation, path string) (text string, ok bool, err error)

// commandTime limits the duration of one inline command.
const commandTime = 2 * time.Minute

// An Invocation is a request for a skill's text.
type Invocation struct {
	Name     string // a name, alias or label; a leading slash and surrounding blanks are ignored
	Args     string
	By       Caller
	View     View     // what the model has seen: a conditional skill must be active in it
	Message  string   // the user's message: the model may call a skill that it names as /skill
	Builtins []string // the program's own commands, which are not skills
	// Preview only displays the text: who may call the skill, and when, is not checked,
	// and nothing runs.
	Preview bool
	// TextOnly means that only the text of the skill counts: it grants nothing, runs nothing, and selects neither a
	// model nor an agent.
	TextOnly bool
	Hash     string   // if not empty, the approved Asks.Hash: other bytes are refused
	Accepted []string // see Activation.Accepted
	Shell    Shell    // nil: inline commands are left as text
	// File reads a file that the skill's text names as @path. nil: no file is read.
	File File
	// Session returns the session that calls the skill, for computed texts. nil: there is none, or it is not known.
	Session func() Snapshot
	// CLAUDE_SESSION_ID, CLAUDE_PROJECT_DIR, CLAUDE_EFFORT, CLAUDE_PLUGIN_ROOT, CLAUDE_PLUGIN_DATA
	Vars map[string]string
}

// An Activation is the result of invoking a skill: its text and settings for a
// conversation. It is only data.
type Activation struct {
	Skill     *Skill // as in the bytes that were used, which may be newer than the Catalog
	Args      string
	By        Caller
	Notice    string   // one line for people
	Asked     string   // the name PREFIX:NAME that was requested, see Catalog.Unprefixed; "": the skill's own
	Prompt    string   // the complete text for the model
	Images    []Part   // what a computed text shows the model after Prompt
	Dir       string   // base directory; "": none
	Resources []string // files beside SKILL.md, slash-separated, relative to Dir
	Grants    []string // permission rules with directories expanded
	// Accepted are the Grants that cover everything (Bash, *) and that the user accepted
	// for the content with this Hash.
	Accepted []string
	Denies   []string
	Model    string          // "": inherit
	Effort   string          // "": inherit
	Hooks    json.RawMessage // see Skill.Hooks
	Sandbox  *Restrictions   // see Skill.Sandbox
	Hash     string          // sha256:… of the bytes that were used; "" for a computed text
	Problems []Problem
}

// A Refusal explains why a skill was not invoked. Code is one of the constants below.
type Refusal struct {
	Code    int
	Message string
	Near    []string // for an unknown skill: up to three similar names
	Hint    string   // a command that helps; "": none
}

// Values of Refusal.Code.
const (
	RefusedEmpty   = 1 // no name was given
	RefusedUnknown = 2 // no such skill, or it is not active yet
	RefusedUnread  = 3 // the file cannot be read, or its text cannot be expanded
	RefusedToModel = 4 // its author disabled it for models (disable-model-invocation) or for people
	RefusedBuiltin = 5 // a command of the program, not a skill
	RefusedRunning = 6 // already running; detected by the runtime
	RefusedByRule  = 7 // denied by a permission rule
	RefusedChanged = 8 // its bytes differ from the approved ones
)

func (r *Refusal) Error() string { return r.Message }

func refuse(code int, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

// Invoke reads a skill's text and expands it. The error is a *[Refusal] if the skill or
// the request is at fault, not the runtime. Permissions and settings come from the bytes
// that are read now, not from the Catalog.
func (c *Catalog) Invoke(ctx context.Context, in Invocation) (*Activation, error) {
	s, err := c.called(in)
	if err != nil {
		return nil, err
	}
	a := &Activation{Skill: s, Args: in.Args, By: in.By, Accepted: in.Accepted}
	if asked := calledName(in); c.Borrowed(asked) {
		a.Asked = asked
		a.problem(Problem{Code: CodePluginMissing, Severity: Info, Path: s.Path, Message: a.borrowed()})
	}
	s, body, hash, problems, err := s.admitted(ctx, in)
	if err != nil {
		return nil, err
	}
	switch {
	case in.Hash != "" && s.Prompt != nil:
		return nil, refuse(RefusedChanged, "%s changed since it was approved: its text is generated", s.Name)
	case in.Hash != "" && in.Hash != hash:
		return nil, refuse(RefusedChanged, "%s changed since it was approved", s.Name)
	}
	for _, p := range problems {
		if p.changesRun() {
			p.Severity = Warn
			a.problem(p)
		}
	}
	a.Skill, a.Hash = s, hash
	if in.TextOnly {
		s = s.onlyText()
		a.Skill, in.Shell, in.File = s, nil, nil
	}
	if in.Preview {
		in.Shell, in.File = nil, nil
	}

	a.Dir = s.Dir
	if a.Dir != "" && s.Read == nil {
		if abs, err := filepath.Abs(a.Dir); err == nil { // the model could not resolve a relative directory
			a.Dir = abs
		}
	}
	local := s.local()
	if local && s.Base != nil {
		if a.Dir, err = s.Base(ctx); err != nil {
			a.problem(Problem{Code: CodeExtractionFailed, Severity: Warn, Path: s.Path,
				Message: fmt.Sprintf("%s has no base directory: %v", s.Name, err),
				Hint:    "check the permissions of the directory it names"})
			a.Dir = ""
		}
	}
	if !local {
		a.Dir = ""
	}
	if s.Effort != "" { // the effort that applies while the skill is in use
		in.Vars = maps.Clone(in.Vars)
		if in.Vars == nil {
			in.Vars = map[string]string{}
		}
		in.Vars["CLAUDE_EFFORT"] = s.Effort
	}
	e := expansion{skill: s, in: in, dir: filepath.ToSlash(a.Dir), activation: a}
	e.prepare()
	a.Grants, a.Denies = e.rules(s.AllowedTools, false), e.rules(s.DisallowedTools, true)
	a.Model, a.Effort, a.Hooks, a.Sandbox = s.Model, s.Effort, s.Hooks, s.Sandbox
	if a.Model == "inherit" {
		a.Model = ""
	}
	if !s.grantsApply(in.Hash) {
		a.Grants, a.Hooks = nil, nil
	}
	used := false
	if s.Prompt != nil {
		if body, err = a.compute(ctx, in, s.Prompt); err != nil {
			return nil, err
		}
		used = true
	} else if body, used, err = e.body(ctx, body); err != nil {
		return nil, err
	}
	if s.Before != nil {
		before, err := a.compute(ctx, in, s.Before)
		if err != nil {
			return nil, err
		}
		if before != "" {
			body = before + "\n\n" + body
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var files string
	if in.File != nil && local {
		files = AttachFiles(e.files, func(path string) (string, bool, error) { return in.File(ctx, a, path) },
			func(p Problem) {
				p.Path = s.Path
				a.problem(p)
			})
	}
	if a.Resources, err = s.Resources(ctx); err != nil {
		a.problem(Problem{Code: CodeUnreadable, Severity: Warn, Path: s.Path,
			Message: fmt.Sprintf("the files beside %s are not listed: %v", s.Name, err),
			Hint:    "check that the directory can be read"})
	}
	a.Resources = slices.DeleteFunc(slices.Clone(a.Resources), forPeople)
	a.Notice = strings.TrimSpace("/" + s.Name + " " + strings.Join(strings.Fields(in.Args), " "))
	a.Prompt = a.prompt(body+files, used)
	return a, nil
}

// MayInvoke returns why Invoke would refuse a call before it looks at the skill's text: there is no such skill, or it
// is not there for the caller, or not yet. The error is a *[Refusal]; nil: nothing of this kind is in the way.
func (c *Catalog) MayInvoke(ctx context.Context, in Invocation) error {
	s, err := c.called(in)
	if err == nil {
		_, _, _, _, err = s.admitted(ctx, in)
	}
	return err
}

// admitted returns a skill that was called as its file is now, with its text, unless its author or its origin refuses
// the caller.
func (s *Skill) admitted(ctx context.Context, in Invocation) (current *Skill, body, hash string, problems []Problem,
	err error) {
	current = s
	if s.Prompt == nil {
		if current, body, hash, problems, err = s.reread(ctx); err != nil {
			return nil, "", "", nil, err
		}
	}
	if in.Preview {
		return current, body, hash, problems, nil
	}
	if in.By == ByModel && !slices.Equal(current.Paths, s.Paths) && current.conditional() &&
		!current.touched(ignore.Compile(current.Paths...), in.View) {
		return nil, "", "", nil, refuse(RefusedUnknown, "the skill %s is not active yet: it becomes active when a tool "+
			"touches a file that matches %s", s.Name, strings.Join(current.Paths, ", "))
	}
	return current, body, hash, problems, current.mayInvoke(in)
}

// maxFiles limits how many files the text of one skill or template attaches.
const maxFiles = 20

// AttachFiles returns the text that shows a model the files of paths, as read returns them, see [File]. It reports
// those that cannot be read.
func AttachFiles(paths []string, read func(path string) (text string, ok bool, err error),
	report func(Problem)) string {
	var b strings.Builder
	for i, path := range paths {
		if i == maxFiles {
			report(Problem{Code: CodeLimitReached, Severity: Warn,
				Message: fmt.Sprintf("only the first %d files named with @ are attached", maxFiles)})
			break
		}
		text, ok, err := read(path)
		switch {
		case err != nil:
			report(Problem{Code: CodeAttachmentMissing, Severity: Warn,
				Message: fmt.Sprintf("@%s is not attached: %v", plain.Line(path), err)})
		case ok:
			fmt.Fprintf(&b, "\n\n<file path=\"%s\">\n%s\n</file>", html.EscapeString(path), text)
		}
	}
	return b.String()
}

// onlyText returns the skill without what it asks for, apart from what only restricts.
func (s *Skill) onlyText() *Skill {
	text := *s
	text.AllowedTools, text.Hooks, text.Model, text.Effort, text.Shell = nil, nil, "", "", ""
	text.Fork, text.Agent, text.Background = false, "", false
	return &text
}

// borrowed says which skill was used in place of the one that was asked for.
func (a *Activation) borrowed() string {
	return fmt.Sprintf("%s is not installed: %s, a %s skill, is used", a.Asked, a.Skill.Name, a.Skill.Origin.Kind)
}

func (a *Activation) problem(p Problem) { a.Problems = append(a.Problems, p) }

func calledName(in Invocation) string {
	return strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(in.Name), "/"))
}

// called finds the skill that an Invocation refers to.
func (c *Catalog) called(in Invocation) (*Skill, error) {
	name := calledName(in)
	if name == "" {
		return nil, refuse(RefusedEmpty, "no skill name was given")
	}
	s := c.Skill(name)
	switch {
	case s != nil:
		if why := c.whyUnavailable(s, in.View, in.By); why != "" {
			return nil, refuse(RefusedUnknown, "%s", why)
		}
		return s, nil
	case slices.Contains(in.Builtins, name):
		return nil, refuse(RefusedBuiltin, "%s is a built-in command, not a skill: only the user can call it", name)
	}
	if no := c.refusalFor(name); no != nil {
		return nil, no
	}
	r := refuse(RefusedUnknown, "unknown skill: %.200s", plain.Line(name))
	for _, n := range c.near(name) {
		if s := c.Skill(n); s != nil && c.whyUnavailable(s, in.View, in.By) == "" &&
			(in.By == ByUser && !s.NotUser || in.By == ByModel && s.Offered()) {
			r.Near = append(r.Near, n)
		}
	}
	if len(r.Near) > 0 {
		r.Message += "; did you mean " + strings.Join(r.Near, ", ") + "?"
	}
	return nil, r
}

// mayInvoke reports an error unless the skill's author and the trust of its origin allow the
// caller to invoke it.
func (s *Skill) mayInvoke(in Invocation) error {
	switch {
	case s.Origin.Trust == Untrusted:
		return refuse(RefusedByRule, "%s is not used: its source is not trusted", s.Name)
	case in.By == ByUser && s.NotUser:
		return refuse(RefusedToModel, "%s cannot be called by the user (user-invocable: false)", s.Name)
	case in.By == ByModel && s.NotModel && !s.calledIn(in.Message):
		return refuse(RefusedToModel, "%s can only be called by the user (disable-model-invocation)", s.Name)
	}
	return nil
}

// calledIn reports whether a user's message contains /name as a separate word.
func (s *Skill) calledIn(message string) bool {
	for at := 0; ; {
		i := strings.IndexByte(message[at:], '/')
		if i < 0 {
			return false
		}
		i += at
		at = i + 1
		if i > 0 && !strings.ContainsRune(" \t\r\n(\"'`,", rune(message[i-1])) {
			continue
		}
		for _, name := range append([]string{s.Name, s.Label}, s.Aliases...) {
			if rest, ok := strings.CutPrefix(message[i+1:], name); ok && name != "" && endsWord(rest) {
				return true
			}
		}
	}
}

// endsWord reports whether the word before rest ends there, apart from punctuation.
func endsWord(rest string) bool {
	rest = strings.TrimLeft(rest, ".,;:!?)\"'`")
	return rest == "" || unicode.IsSpace([]rune(rest[:min(4, len(rest))])[0])
}

// local reports whether the skill is a trusted one on this machine, which can have a
// directory and commands.
func (s *Skill) local() bool { return s.Origin.Trust == Trusted && s.Origin.Kind != MCP }

// grantsApply reports whether the skill's grants apply without asking. A skill that is not
// local must have been approved, by the hash of its bytes.
func (s *Skill) grantsApply(approved string) bool { return s.local() || approved != "" }

// changesRun reports whether a problem is about a value that would change how the skill runs, and was ignored.
func (p Problem) changesRun() bool {
	return p.Ignored == "effort" || p.Ignored == "context"
}

// reread reads the skill again from its file, with the problems of the file.
func (s *Skill) reread(ctx context.Context) (current *Skill, body, hash string, problems []Problem, err error) {
	data, err := s.read(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil, "", "", nil, ctx.Err()
		}
		return nil, "", "", nil, refuse(RefusedUnread, "%s cannot be read: %v", s.Name, err)
	}
	current, text, problems := parseFile(s.Path, data, s.Origin)
	if current == nil {
		return nil, "", "", nil, refuse(RefusedUnread, "%s cannot be read: %v", s.Name, problems[0])
	}
	current.Name, current.ID, current.Path, current.Dir = s.Name, s.ID, s.Path, s.Dir
	current.Read, current.List, current.Base, current.Before = s.Read, s.List, s.Base, s.Before
	current.Vars, current.command = s.Vars, s.command
	return current, strings.TrimLeft(string(text), "\r\n"), hashOf(data), problems, nil
}

func hashOf(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// read returns the current SKILL.md, at most 1 MiB. A skill with a computed text has no
// file.
func (s *Skill) read(ctx context.Context) ([]byte, error) {
	var data []byte
	var err error
	switch {
	case s.Read != nil:
		data, err = s.Read(ctx)
	case s.Path != "":
		data, err = readBounded(s.Path)
	default:
		err = errors.New("its text is generated")
	}
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("the file is larger than %d MiB", maxFile>>20)
	}
	return data, err
}

// readBounded reads a regular file, up to one byte more than is allowed.
func readBounded(path string) ([]byte, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// shownResources limits how many resources are listed for the model.
const shownResources = 50

// prompt returns the complete text for the model.
func (a *Activation) prompt(body string, used bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<command-message>The \"%s\" skill is loading</command-message>\n", a.Skill.Name)
	fmt.Fprintf(&b, "<command-name>%s</command-name>\n", a.Skill.Name)
	given := strings.TrimSpace(a.Args) != ""
	if given {
		fmt.Fprintf(&b, "<command-args>%s</command-args>\n", a.Args)
	}
	b.WriteString("\n")
	if a.Dir != "" {
		fmt.Fprintf(&b, "Base directory for this skill: %s\n\n", filepath.ToSlash(a.Dir))
	}
	b.WriteString(body)
	if given && !used {
		fmt.Fprintf(&b, "\n\nARGUMENTS: %s", a.Args)
	}
	if len(a.Resources) > 0 {
		b.WriteString("\n\nResources of this skill:\n")
		for i, r := range a.Resources {
			if i == shownResources {
				fmt.Fprintf(&b, "- and %d more\n", len(a.Resources)-i)
				break
			}
			fmt.Fprintf(&b, "- %s\n", plain.Line(r))
		}
	}
	return b.String()
}

// Asks is what a skill requests besides adding text to the conversation. A person sees
// it when asked whether the skill may run.
type Asks struct {
	Hash     string          // of the bytes with these requests, for Invocation.Hash; "" for a computed text
	Grants   []string        // allowed-tools
	Denies   []string        // disallowed-tools; they need no consent
	Hooks    json.RawMessage // see Skill.Hooks
	Commands []string        // inline commands as written, in order
	Sandbox  *Restrictions   // only restricts, so it needs no consent
	Model    string
	Shell    string
	Fork     bool
	// NeverRuns says why one of Commands can never run, so that no call of the skill succeeds; nil: all may run.
	NeverRuns error
}

// IsEmpty reports whether the skill requests nothing that needs consent. A denial and a fork let it do no more than
// without them. A Model counts, because it may be one of another provider.
func (a Asks) IsEmpty() bool {
	return len(a.Grants) == 0 && a.Hooks == nil && len(a.Commands) == 0 && a.Model == "" && a.Shell == ""
}

// Asks reads the skill's current file and returns what it requests. The error is a
// *[Refusal] if the file cannot be read.
func (s *Skill) Asks(ctx context.Context) (Asks, error) {
	var commands []string
	var never error
	hash := ""
	if s.Prompt == nil {
		current, body, h, _, err := s.reread(ctx)
		if err != nil {
			return Asks{}, err
		}
		s, hash = current, h
		if s.local() {
			commands = InlineCommands(body)
			never = s.neverRuns(commands)
		}
	}
	a := Asks{Hash: hash, Grants: s.AllowedTools, Denies: s.DisallowedTools, Hooks: s.Hooks,
		Commands: commands, NeverRuns: never, Sandbox: s.Sandbox, Model: s.Model, Shell: s.Shell, Fork: s.Fork}
	if a.Model == "inherit" {
		a.Model = ""
	}
	return a, nil
}

// neverRuns returns why one of the skill's inline commands is refused whatever its arguments are.
func (s *Skill) neverRuns(commands []string) error {
	sc, values := s.scanner(), newValues("a b c d e f g h i j", nil)
	for _, c := range commands {
		if _, _, _, err := sc.prepare(c, &values, s.Shell == "powershell"); err != nil {
			return fmt.Errorf("the command %s cannot run: %w", escapeCommand(c), err)
		}
	}
	return nil
}

// InlineCommands returns the commands in a skill's text (without frontmatter) that run
// when it is invoked, as written and in order.
func InlineCommands(text string) []string {
	var commands []string
	for _, t := range (scanner{}).scan(text) {
		if t.kind == command {
			commands = append(commands, t.text)
		}
	}
	return commands
}

func (s *Skill) scanner() scanner {
	sc := scanner{names: s.Arguments}
	if s.Origin.Kind == Legacy || s.command {
		sc.dialect = legacyText
	}
	return sc
}

// Describe returns the full description of a skill, which a listing may have cut. It
// refuses the same calls as Invoke, and reads no file.
func (c *Catalog) Describe(in Invocation) (string, error) {
	s, err := c.called(in)
	if err != nil {
		return "", err
	}
	if err := s.mayInvoke(in); err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(s.Name)
	if s.ArgumentHint != "" {
		b.WriteString(" " + s.ArgumentHint)
	}
	b.WriteString("\n\n" + s.Summary() + "\n")
	for _, f := range s.Fields() {
		if f.Key == "compatibility" || f.Key == "version" {
			var text string
			if json.Unmarshal(f.Value, &text) != nil {
				text = string(f.Value)
			}
			fmt.Fprintf(&b, "\n%s: %s\n", f.Key, text)
		}
	}
	return b.String(), nil
}
