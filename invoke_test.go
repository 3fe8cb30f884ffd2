package knack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// putSkill writes dir/NAME/SKILL.md and other files of the skill.
func putSkill(t *testing.T, dir, name, text string, beside ...string) {
	t.Helper()
	for _, f := range append([]string{"SKILL.md"}, beside...) {
		file := filepath.Join(dir, name, filepath.FromSlash(f))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if f != "SKILL.md" {
			text = "x"
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func trusted(dir string) Source { return Dir(dir, Origin{Kind: Project, Trust: Trusted}) }

func refusal(t *testing.T, err error) *Refusal {
	t.Helper()
	var r *Refusal
	if !errors.As(err, &r) {
		t.Fatalf("%v is not a refusal", err)
	}
	return r
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"release-notes", "release-note", "pdf", "deploy", "deploys"} {
		putSkill(t, dir, name, "---\nname: "+name+"\ndescription: D.\n---\nB.\n")
	}
	putSkill(t, dir, "secret", "---\nname: secret\ndescription: D.\ndisable-model-invocation: true\n---\n")
	putSkill(t, dir, "waits", "---\nname: waits\ndescription: D.\npaths: '*.go'\n---\n")
	putSkill(t, dir, "gone", "---\nname: gone\ndescription: D.\n---\n")
	putSkill(t, dir, "large", "---\nname: large\ndescription: D.\n---\n")
	c := Load(t.Context(), trusted(dir))
	if err := os.Remove(filepath.Join(dir, "gone", "SKILL.md")); err != nil {
		t.Fatal(err)
	}
	putSkill(t, dir, "large", "---\nname: large\n---\n"+strings.Repeat("x", maxFile))
	for _, tt := range []struct {
		name    string
		by      Caller
		code    int
		near    string
		message string
	}{
		{"", ByModel, RefusedEmpty, "", ""},
		{" / ", ByUser, RefusedEmpty, "", ""},
		{"nothing-like-it", ByModel, RefusedUnknown, "", "nothing-like-it"},
		{"relase-notes", ByModel, RefusedUnknown, "release-notes release-note", "did you mean release-notes"},
		{"deplyo", ByModel, RefusedUnknown, "deploy deploys", "deploy"},
		{"secrets", ByModel, RefusedUnknown, "", ""},
		{"secrets", ByUser, RefusedUnknown, "secret", ""},
		{"waits", ByModel, RefusedUnknown, "", "*.go"},
		{"gone", ByUser, RefusedUnread, "", "gone"},
		{"large", ByUser, RefusedUnread, "", "1"},
		{"secret", ByModel, RefusedToModel, "", "disable-model-invocation"},
		{"help", ByModel, RefusedBuiltin, "", "help"},
		{"bad\x1b[2Jname", ByModel, RefusedUnknown, "", `\x1b`},
	} {
		_, err := c.Invoke(t.Context(), Invocation{Name: tt.name, By: tt.by, Builtins: []string{"help"}})
		r := refusal(t, err)
		if r.Code != tt.code || !strings.Contains(r.Message, tt.message) || tt.near != "" &&
			strings.Join(r.Near, " ") != tt.near || len(r.Near) > 3 {
			t.Errorf("%q: %+v", tt.name, r)
		}
		if strings.ContainsRune(r.Message, 0x1b) {
			t.Errorf("%q: the message contains terminal sequences", tt.name)
		}
	}
	if _, err := c.Invoke(t.Context(), Invocation{Name: " /pdf ", By: ByModel}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Invoke(ctx, Invocation{Name: "pdf"}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// What grants or runs comes from the bytes that are read at invocation, and an approval applies only to them.
func TestBytesOfInvocation(t *testing.T) {
	dir := t.TempDir()
	text := "---\nname: a\ndescription: D.\nallowed-tools: Read\n---\nOld.\n"
	putSkill(t, dir, "a", text)
	c := Load(t.Context(), trusted(dir))
	asks, err := c.Skill("a").Asks(t.Context())
	if err != nil || !slices.Equal(asks.Grants, []string{"Read"}) || asks.IsEmpty() {
		t.Fatalf("%+v, %v", asks, err)
	}
	a, err := c.Invoke(t.Context(), Invocation{Name: "a", Hash: asks.Hash})
	if err != nil || a.Hash != asks.Hash || !slices.Equal(a.Grants, []string{"Read"}) {
		t.Fatalf("%+v, %v", a, err)
	}
	putSkill(t, dir, "a", "---\nname: a\ndescription: D.\nallowed-tools: Bash(rm:*)\nmodel: inherit\n---\nNew.\n")
	_, err = c.Invoke(t.Context(), Invocation{Name: "a", Hash: asks.Hash})
	if r := refusal(t, err); r.Code != RefusedChanged {
		t.Errorf("%+v", r)
	}
	a, err = c.Invoke(t.Context(), Invocation{Name: "a"})
	if err != nil || !slices.Equal(a.Grants, []string{"Bash(rm:*)"}) || !strings.Contains(a.Prompt, "New.") ||
		a.Model != "" {
		t.Errorf("%+v, %v", a, err)
	}
	putSkill(t, dir, "a", "---\nname: a\ndisable-model-invocation: true\n---\nNew.\n")
	_, err = c.Invoke(t.Context(), Invocation{Name: "a", By: ByModel})
	if r := refusal(t, err); r.Code != RefusedToModel {
		t.Errorf("%+v", r)
	}
}

func TestAsks(t *testing.T) {
	dir := t.TempDir()
	putSkill(t, dir, "all", "---\nname: all\ndescription: D.\ndisallowed-tools: Write\nhooks: [{event: Stop, command: "+
		"x}]\nmodel: opus\nshell: bash\ncontext: fork\n---\n!`git log $0`\n\n```!\na\nb\n```\n")
	putSkill(t, dir, "none", "---\nname: none\ndescription: D.\nmodel: inherit\neffort: high\n---\nText `!`x`.\n")
	c := Load(t.Context(), trusted(dir))
	asks, err := c.Skill("all").Asks(t.Context())
	if err != nil || !slices.Equal(asks.Commands, []string{"git log $0", "a\nb"}) || asks.Model != "opus" || !asks.Fork ||
		asks.Shell != "bash" || asks.Hooks == nil || len(asks.Denies) != 1 {
		t.Errorf("%+v, %v", asks, err)
	}
	if asks, err = c.Skill("none").Asks(t.Context()); err != nil || !asks.IsEmpty() {
		t.Errorf("%+v, %v", asks, err)
	}
}

// TestAsksNothing: each thing that a skill may ask for needs consent by itself.
func TestAsksNothing(t *testing.T) {
	for head, nothing := range map[string]bool{
		"":                                true,
		"model: inherit":                  true,
		"effort: max":                     true,
		"scope: session":                  true,
		"context: inline":                 true,
		"agent: Explore":                  true,
		"allowed-tools: Read":             false,
		"disallowed-tools: Read":          true,
		"hooks: [{event: Stop, path: x}]": false,
		"model: opus":                     false,
		"shell: bash":                     false,
		"context: fork":                   true,
		"license: x\n---\n!`ls`":          false,
		"license: x\n---\n```!\nls\n```":  false,
		"license: x\n---\n`!`ls``":        true,
	} {
		data := []byte("---\ndescription: D.\n" + head + "\n---\nText.\n")
		s, _, _ := parseFile("a/SKILL.md", data, Origin{Kind: User, Trust: Trusted})
		s.Read = func(context.Context) ([]byte, error) { return data, nil }
		asks, err := s.Asks(t.Context())
		if err != nil || asks.IsEmpty() != nothing || asks.Hash != hashOf(data) {
			t.Errorf("%q: %v, %+v", head, err, asks)
		}
		// A remote skill runs no commands, and asks for none.
		if s.Origin.Trust = Remote; len(asks.Commands) > 0 {
			if asks, err := s.Asks(t.Context()); err != nil || len(asks.Commands) > 0 {
				t.Errorf("%q: %v, %+v", head, err, asks)
			}
		}
	}
	s := &Skill{Name: "a", Model: "opus", Prompt: func(context.Context, Invocation) ([]Part, error) {
		return TextPart("x"),
			nil
	}}
	if asks, err := s.Asks(t.Context()); err != nil || asks.IsEmpty() || asks.Hash != "" {
		t.Errorf("%v, %+v", err, asks)
	}
	if _, err := (&Skill{Name: "a"}).Asks(t.Context()); refusal(t, err).Code != RefusedUnread {
		t.Error(err)
	}
}

// TestActivation: the activation contains what the skill specifies, and a remote skill grants nothing without
// approval.
func TestActivation(t *testing.T) {
	data := []byte("---\nname: a\ndescription: D.\nallowed-tools: Read\ndisallowed-tools: Write\nmodel: opus\neffort: " +
		"high\nhooks: [{event: Stop, path: x}]\n---\n\n\n{baseDir} ${CLAUDE_PROJECT_DIR} ${CLAUDE_SESSION_ID}\n")
	for _, o := range []Origin{{Kind: User, Trust: Trusted}, {Kind: Plugin, Trust: Remote}, {Kind: MCP, Trust: Trusted},
		{Kind: MCP, Trust: Remote}} {
		local := o == Origin{Kind: User, Trust: Trusted}
		for _, approved := range []bool{false, true} {
			s, _, _ := parseFile("a/SKILL.md", data, o)
			s.Read = func(context.Context) ([]byte, error) { return data, nil }
			s.Dir = "/d"
			based := false
			s.Base = func(context.Context) (string, error) { based = true; return "/based", nil }
			in := Invocation{Name: "a", Args: " x  y\nz ", Vars: map[string]string{"CLAUDE_PROJECT_DIR": "/p",
				"CLAUDE_SESSION_ID": "s", "CLAUDE_SKILL_DIR": "/forged", "HOME": "/h"}}
			if approved {
				in.Hash = hashOf(data)
			}
			a, err := Load(t.Context(), sourceOf(s)).Invoke(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			granted := local || approved
			if gone := len(a.Problems) > 0 && a.Problems[0].Code == "unreadable"; !gone || a.Resources != nil {
				t.Errorf("the directory is missing: %v", a.Problems)
			}
			if a.Model != "opus" || a.Effort != "high" || len(a.Denies) != 1 || (len(a.Grants) == 1) != granted ||
				(a.Hooks != nil) != granted || a.Hash != hashOf(data) {
				t.Errorf("%v, approved: %v: %+v", o, approved, a)
			}
			text := "\n\n/based /p s\n"
			if !local {
				text = "\n\n{baseDir} ${CLAUDE_PROJECT_DIR} s\n"
			}
			if !strings.Contains(a.Prompt, text) || based != local || (a.Dir == "/based") != local ||
				strings.Contains(a.Prompt, "Base directory") != local || a.Notice != "/a x y z" {
				t.Errorf("%v: %q, %s, %q", o, a.Dir, a.Notice, a.Prompt)
			}
		}
	}
}

// TestNamed: a user's message opens a skill that is closed to models if it contains the name as a separate word.
func TestNamed(t *testing.T) {
	s := &Skill{Name: "a-b", Label: "Label", Aliases: []string{"al"}}
	for message, want := range map[string]bool{
		"/a-b": true, "x /a-b": true, "(/a-b)": true, "`/a-b`": true, "\"/a-b\", please": true, "'/a-b'": true,
		"do /a-b.": true, "/a-b!": true, "\t/a-b\n": true, "x,/a-b;y": false, "x,/a-b; y": true, "/a-b:": true, "/a-b?": true,
		"/Label": true, "/al": true, "/x then /al": true, "/a-b\u00a0é": true, "a-b": false, "/a-bc": false, "x/a-b": false,
		"/a": false, "//a-b": false, "/": false, "": false, "/a-b/c": false, "/alé": false, "/ a-b": false,
	} {
		if got := s.calledIn(message); got != want {
			t.Errorf("%q: %v", message, got)
		}
	}
	if (&Skill{Name: "a"}).calledIn("/ x") {
		t.Error("a skill without a label is named by an empty label")
	}
}

func TestResources(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for i := range 53 {
		files = append(files, fmt.Sprintf("references/%02d.md", i))
	}
	putSkill(t, dir, "many", "---\nname: many\ndescription: D.\n---\nB.\n", files...)
	putSkill(t, dir, "few", "---\nname: few\ndescription: D.\n---\nB.", "scripts/a.sh", ".hidden/x", "node_modules/x")
	c := Load(t.Context(), trusted(dir))
	a, err := c.Invoke(t.Context(), Invocation{Name: "many"})
	if err != nil || !strings.HasSuffix(a.Prompt, "\n- references/49.md\n- and 3 more\n") || len(a.Resources) != 53 {
		t.Errorf("%v, %q", err, a.Prompt)
	}
	a, err = c.Invoke(t.Context(), Invocation{Name: "few", Args: "x"})
	want := "<command-message>The \"few\" skill is " +
		"loading</command-message>\n<command-name>few</command-name>\n<command-args>x</command-args>\n\n" +
		"Base directory for this skill: " + filepath.ToSlash(filepath.Join(dir, "few")) +
		"\n\nB.\n\nARGUMENTS: x\n\nResources of this skill:\n- scripts/a.sh\n"
	if err != nil || a.Prompt != want {
		t.Errorf("%v, %q; want %q", err, a.Prompt, want)
	}
}

func TestComputedText(t *testing.T) {
	s := &Skill{Name: "now", Description: "D.", ID: "x", Origin: Origin{Kind: Bundled, Trust: Trusted},
		Prompt: func(_ context.Context, in Invocation) ([]Part, error) {
			if in.Args == "bad" {
				return nil, errors.New("no")
			}
			return []Part{{Text: "It is $ARGUMENTS, not " + in.Args}}, nil
		}}
	c := Load(t.Context(), sourceOf(s))
	a, err := c.Invoke(t.Context(), Invocation{Name: "now", Args: "noon"})
	if err != nil || !strings.HasSuffix(a.Prompt, "\n\nIt is $ARGUMENTS, not noon") || a.Hash != "" {
		t.Errorf("%v, %+v", err, a)
	}
	_, err = c.Invoke(t.Context(), Invocation{Name: "now", Args: "bad"})
	if r := refusal(t, err); r.Code != RefusedUnread {
		t.Errorf("%+v", r)
	}
}

// A computed text may have several parts and images, sees the session, and can precede the text of a file.
func TestComputedParts(t *testing.T) {
	see := func(_ context.Context, in Invocation) ([]Part, error) {
		if in.Preview {
			return nil, nil
		}
		if in.Session == nil {
			return nil, errors.New("there is no session")
		}
		last := in.Session().Moments[0]
		return []Part{{Text: last.Name + " failed: " + last.Text}, {Image: []byte("png"), MIME: "image/png"},
			{Text: "Look."}}, nil
	}
	file := &Skill{Name: "file", Description: "D.", ID: "y", Path: "file/SKILL.md",
		Origin: Origin{Kind: Bundled, Trust: Trusted},
		Before: see, Read: func(context.Context) ([]byte, error) {
			return []byte("---\ndescription: D.\n---\nText for $ARGUMENTS."), nil
		}, List: func(context.Context) ([]string, error) { return nil, nil }}
	c := Load(t.Context(), sourceOf(file))
	session := func() Snapshot {
		return Snapshot{Moments: []Moment{{Kind: MomentCall, Name: "bash", Text: "exit 1", Failed: true}}}
	}
	a, err := c.Invoke(t.Context(), Invocation{Name: "file", Args: "all", Session: session})
	if err != nil || !strings.HasSuffix(a.Prompt, "\n\nbash failed: exit 1\n\nLook.\n\nText for all.") {
		t.Fatalf("%v, %+v", err, a)
	}
	if len(a.Images) != 1 || string(a.Images[0].Image) != "png" || a.Hash == "" {
		t.Errorf("%+v", a)
	}
	if _, err := c.Invoke(t.Context(), Invocation{Name: "file"}); refusal(t, err).Code != RefusedUnread {
		t.Error(err)
	}
	if a, err := c.Invoke(t.Context(), Invocation{Name: "file", Preview: true}); err != nil ||
		!strings.Contains(a.Prompt, "Text for") {
		t.Error(err)
	}
}

func TestDescribe(t *testing.T) {
	dir := t.TempDir()
	long := strings.Repeat("word ", 600)
	putSkill(t, dir, "a", "---\nname: a\ndescription: "+long+"\nwhen_to_use: When.\nargument-hint: '[x]'\n---\n")
	c := Load(t.Context(), trusted(dir))
	text, err := c.Describe(Invocation{Name: "a", By: ByModel})
	if err != nil || !strings.HasPrefix(text, "a [x]\n\nword word") || !strings.Contains(text, " - When.") ||
		len(text) < 3000 {
		t.Errorf("%v, %q", err, text)
	}
	putSkill(t, dir, "c", "---\ndescription: D.\ncompatibility: Needs git.\nversion: 1.10\nlicense: MIT\n---\n")
	c = Load(t.Context(), trusted(dir))
	if text, err = c.Describe(Invocation{Name: "c", By: ByModel}); err != nil ||
		text != "c\n\nD.\n\ncompatibility: Needs git.\n\nversion: 1.10\n" {
		t.Errorf("%v, %q", err, text)
	}
	putSkill(t, dir, "d", "---\ndescription: D.\ndisable-model-invocation: true\n---\n")
	_, err = Load(t.Context(), trusted(dir)).Describe(Invocation{Name: "d", By: ByModel})
	if r := refusal(t, err); r.Code != RefusedToModel {
		t.Errorf("%+v", r)
	}
	_, err = c.Describe(Invocation{Name: "b"})
	if r := refusal(t, err); r.Code != RefusedUnknown {
		t.Errorf("%+v", r)
	}
}

// A directory whose name a rule would read as a pattern grants nothing.
func TestDirectoryInRules(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no * in names")
	}
	dir := filepath.Join(t.TempDir(), "x*y")
	putSkill(t, dir, "a", "---\nname: a\ndescription: D.\nallowed-tools: Bash({baseDir}/run.sh) "+
		"Read\ndisallowed-tools: Edit({baseDir}/**)\n---\n")
	a, err := Load(t.Context(), trusted(dir)).Invoke(t.Context(), Invocation{Name: "a"})
	if err != nil || !slices.Equal(a.Grants, []string{"Read"}) || !slices.Equal(a.Denies, []string{"Edit"}) ||
		len(a.Problems) != 2 {
		t.Errorf("%v, %+v", err, a)
	}
}

// This applies to each character that has a meaning in a pattern.
func TestDirectoryCharacters(t *testing.T) {
	data := []byte("---\nname: a\ndescription: D.\nallowed-tools: Read(${CLAUDE_PROJECT_DIR}/**)\ndisallowed-tools: " +
		"Edit(${CLAUDE_PROJECT_DIR}/**)\n---\n")
	s, _, _ := parseFile("a/SKILL.md", data, Origin{Kind: Project, Trust: Trusted})
	s.Read = func(context.Context) ([]byte, error) { return data, nil }
	s.List = func(context.Context) ([]string, error) { return nil, nil }
	for _, c := range strings.Split("*?[]{}()!\\'\"`$\n", "") {
		a, err := Load(t.Context(), sourceOf(s)).Invoke(t.Context(),
			Invocation{Name: "a", Vars: map[string]string{"CLAUDE_PROJECT_DIR": "/x" + c + "y"}})
		if err != nil || len(a.Grants) != 0 || !slices.Equal(a.Denies, []string{"Edit"}) || len(a.Problems) != 2 ||
			a.Problems[0].Code != "tool-pattern" ||
			!strings.Contains(a.Problems[0].Message, "grants nothing") || !strings.Contains(a.Problems[1].Message,
			"denies all of Edit") {
			t.Errorf("%q: %v, %+v", c, err, a)
		}
	}
	for _, c := range strings.Split("-_ .,:;#~^%@+=é", "") {
		a, err := Load(t.Context(), sourceOf(s)).Invoke(t.Context(),
			Invocation{Name: "a", Vars: map[string]string{"CLAUDE_PROJECT_DIR": "/x" + c + "y"}})
		if err != nil || !slices.Equal(a.Grants, []string{"Read(/x" + c + "y/**)"}) || len(a.Problems) != 0 {
			t.Errorf("%q: %v, %+v", c, err, a)
		}
	}
}

// A directory whose name has blanks is one word of a command.
func TestDirectoryWithBlanks(t *testing.T) {
	data := []byte("---\nname: a\ndescription: D.\nallowed-tools:\n" +
		"  - Bash(sh ${CLAUDE_PROJECT_DIR}/x.sh:*)\n  - Bash(sh \"${CLAUDE_PROJECT_DIR}/x.sh\":*)\n" +
		"  - Bash(say 'a b' \\' ${CLAUDE_PROJECT_DIR})\n  - Bash(say it's ${CLAUDE_PROJECT_DIR})\n" +
		"  - Read(${CLAUDE_PROJECT_DIR}/**)\n---\n")
	s, _, _ := parseFile("a/SKILL.md", data, Origin{Kind: Project, Trust: Trusted})
	s.Read = func(context.Context) ([]byte, error) { return data, nil }
	s.List = func(context.Context) ([]string, error) { return nil, nil }
	a, err := Load(t.Context(), sourceOf(s)).Invoke(t.Context(),
		Invocation{Name: "a", Vars: map[string]string{"CLAUDE_PROJECT_DIR": "/my ö b"}})
	want := []string{`Bash(sh /my\ ö\ b/x.sh:*)`, `Bash(sh "/my ö b/x.sh":*)`, `Bash(say 'a b' \' /my\ ö\ b)`,
		`Bash(say it's /my\ ö\ b)`, "Read(/my ö b/**)"}
	if err != nil || !slices.Equal(a.Grants, want) || len(a.Problems) != 0 {
		t.Errorf("%v\n%q\n%q", err, a.Grants, want)
	}
}

// TestPlainReader: where a plain YAML reader accepts a frontmatter, our fields equal its fields.
func TestPlainReader(t *testing.T) {
	docs, err := filepath.Glob("testdata/parse/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, doc := range docs {
		a, err := txtar.ParseFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range a.Files {
			if filepath.Ext(f.Name) == ".want" || filepath.Ext(f.Name) == ".quoted" || strings.Contains(doc, "salvage") ||
				strings.Contains(doc, "odd") {
				continue
			}
			fields, ok := plainFields(f.Data)
			if !ok {
				continue
			}
			n++
			s, _, problems := parseFile(f.Name, f.Data, Origin{})
			sameFields(t, doc+":"+f.Name, s, fields)
			for _, p := range problems {
				if p.Code == "yaml-repaired" || p.Code == "yaml-invalid" {
					t.Errorf("%s: %s", f.Name, p)
				}
			}
		}
	}
	if n < 40 {
		t.Errorf("only %d files were compared", n)
	}
}

// TestIdleMemory: a loaded skill costs at most 2 KiB in addition to its description.
func TestIdleMemory(t *testing.T) {
	const n = 2000
	text := "---\nname: %s\ndescription: Short.\nallowed-tools: Bash(git status:*), Read\nlicense: MIT\nmetadata:\n  " +
		"author: me\n  version: 1.0.0\n---\n" + strings.Repeat("Body. ", 500)
	skills := make([]*Skill, n)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range skills {
		name := fmt.Sprintf("skill-%04d", i)
		head := fmt.Appendf(nil, text, name)
		skills[i], _ = new(headReader).parse("/home/me/.claude/skills/"+name+"/SKILL.md", head, int64(len(head)), Origin{})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / n
	t.Logf("%d bytes a skill", each)
	if each > 2048 {
		t.Errorf("an idle skill costs %d bytes", each)
	}
	runtime.KeepAlive(skills)
}

// A command that takes longer than two minutes makes the whole activation fail.
func TestCommandTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data := []byte("---\nname: a\ndescription: D.\n---\n!`sleep 1000` after")
		s, _, _ := parseFile("a/SKILL.md", data, Origin{Kind: Project, Trust: Trusted})
		s.Read = func(context.Context) ([]byte, error) { return data, nil }
		begin := time.Now()
		_, err := Load(t.Context(), sourceOf(s)).Invoke(t.Context(),
			Invocation{Name: "a", Shell: func(ctx context.Context, _ *Activation, _ string, _ []string) (string, error) {
				<-ctx.Done()
				return "half", nil
			}})
		if r := refusal(t, err); r.Code != RefusedUnread || !strings.Contains(r.Message, "sleep 1000") ||
			time.Since(begin) != 2*time.Minute {
			t.Errorf("%+v after %v", r, time.Since(begin))
		}
	})
}

// A command that the rules refuse is refusal 7, one that fails is 3; in both cases nothing reaches the model, and
// later commands do not run.
func TestCommandRefused(t *testing.T) {
	data := []byte("---\nname: a\ndescription: D.\n---\n!`first` !`second` !`third`")
	s, _, _ := parseFile("a/SKILL.md", data, Origin{Kind: Project, Trust: Trusted})
	s.Read = func(context.Context) ([]byte, error) { return data, nil }
	for code, fail := range map[int]error{RefusedByRule: &Refusal{Code: RefusedByRule,
		Message: "the rule Bash(second) denies it"}, RefusedUnread: errors.New("exit status 1")} {
		ran := ""
		a, err := Load(t.Context(), sourceOf(s)).Invoke(t.Context(),
			Invocation{Name: "a", Shell: func(_ context.Context, _ *Activation, line string, _ []string) (string, error) {
				ran += line + " "
				if line == "second" {
					return "half", fail
				}
				return "out", nil
			}})
		if r := refusal(t, err); a != nil || r.Code != code || !strings.Contains(r.Message, "`second`") ||
			!strings.Contains(r.Message, fail.Error()) || ran != "first second " {
			t.Errorf("%+v, ran %s", r, ran)
		}
	}
}

// A value larger than 100 KiB is not passed to a command.
func TestLargeValue(t *testing.T) {
	for size, refused := range map[int]bool{100 << 10: false, 100<<10 + 1: true} {
		v := newValues(strings.Repeat("x", size), nil)
		_, _, _, err := scanner{}.prepare("echo $0", &v, false)
		if (err != nil) != refused {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// Frontmatter of more than 64 KiB is not parsed; the text loads.
func TestLargeFrontmatter(t *testing.T) {
	for size, code := range map[int]Code{64<<10 - 28: "", 64<<10 - 27: CodeTooLarge} {
		data := "---\nname: a\ndescription: D.\nx: " + strings.Repeat("y", size) + "\n---\nBody.\n"
		s, body, problems := parseFile("a/SKILL.md", []byte(data), Origin{})
		if s == nil || string(body) != "Body.\n" || (code == "") != (len(problems) == 0) || code != "" &&
			problems[0].Code != code {
			t.Errorf("%d: %q, %v", size, body, problems)
		}
	}
}

// TestRelativeFolder: the base directory in the text is absolute, even if the folder's path is relative.
func TestRelativeFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	putSkill(t, "skills", "a", "---\ndescription: D.\n---\nText.\n")
	act, err := Load(t.Context(), Dir("skills", Origin{Kind: User, Trust: Trusted})).Invoke(t.Context(),
		Invocation{Name: "a"})
	if err != nil || !filepath.IsAbs(act.Dir) || !strings.Contains(act.Prompt,
		"Base directory for this skill: "+filepath.ToSlash(act.Dir)) {
		t.Errorf("%v, %q", err, act.Prompt)
	}
}
