package knack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"
)

// counted counts the bytes that are read from its files.
type counted struct {
	fs.FS
	read map[string]int
}

func (c counted) Open(name string) (fs.File, error) {
	f, err := c.FS.Open(name)
	if err != nil || filepath.Ext(name) != ".md" {
		return f, err
	}
	return countedFile{f, c.read, name}, nil
}

type countedFile struct {
	fs.File
	read map[string]int
	name string
}

func (f countedFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	f.read[f.name] += n
	return n, err
}

// TestHead: no more of a file is read than its head needs, whatever its body, and the result equals that of the whole
// file.
func TestHead(t *testing.T) {
	body := strings.Repeat("é", 400<<10)
	x := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		text        string
		most        int // most bytes that may be read
		description string
		code        string
	}{
		"ordinary":   {"---\ndescription: D.\n---\n" + body, headSize, "D.", ""},
		"cut-letter": {"---\ndescription: D.\n---\nx" + body, headSize, "D.", ""},
		"first-key":  {"---\ndescription: " + x(3000) + "\n---\n" + body, headSize, x(3000), "description-too-long"},
		"later-key":  {"---\nlicense: " + x(3000) + "\ndescription: D.\n---\n" + body, headSize, "D.", ""},
		"long-head":  {"---\nlicense: " + x(20000) + "\ndescription: D.\n---\n" + body, 32 << 10, "D.", ""},
		"paragraph": {"---\nlicense: " + x(4000) + "\n---\nThe paragraph " + x(500) + " goes on.\n\n" + body, 8 << 10,
			"The paragraph " + x(500) + " goes on.", "description-missing"},
		"paragraph-near": {"---\nlicense: MIT\n---\nThe paragraph.\n\n" + body, headSize, "The paragraph.",
			"description-missing"}, "no-frontmatter": {"The paragraph.\n\n" + body, headSize, "The paragraph.",
			"frontmatter-missing"}, "other-key": {"---\nmydescription: x\nlicense: " + x(4000) + "\n---\nP " + x(300) +
			".\n\n" + body, 8 << 10, "P " + x(300) + ".", "description-missing"},
		"not-closed": {"---\nlicense: x\nP.\n\n" + body, 128 << 10, "", "too-large"},
		"head-too-large": {"---\ndescription: D.\nlicense: " + x(70000) + "\n---\nP.\n\n" + body, 128 << 10, "",
			"too-large"}, "head-just-fits": {"---\ndescription: D.\nlicense: " + x(64<<10-40) + "\n---\nP.\n\n" + body,
			128 << 10, "D.", ""},
		"not-closed-fits": {"---\nlicense: x\nP.\n", 18, "license: x P.", "frontmatter-unclosed"},
	} {
		fsys := counted{fstest.MapFS{name + "/SKILL.md": {Data: []byte(c.text)}}, map[string]int{}}
		cat := Load(t.Context(), FS(fsys, Origin{Kind: User, Trust: Trusted}))
		s := cat.Skill(name)
		if s == nil {
			t.Errorf("%s: %v", name, cat.Problems())
			continue
		}
		if n := fsys.read[name+"/SKILL.md"]; n > c.most {
			t.Errorf("%s: %d bytes were read, at most %d are needed", name, n, c.most)
		}
		if c.description != "" && s.Description != c.description {
			t.Errorf("%s: described as %.50q", name, s.Description)
		}
		codes := ""
		for _, p := range cat.Problems() {
			codes += string(p.Code) + " "
		}
		if want := c.code; !strings.Contains(codes, want) || strings.Contains(codes, "encoding") || want == "" &&
			codes != "name-missing " {
			t.Errorf("%s: %s, want %s", name, codes, want)
		}
		text, err := s.Body(t.Context())
		if whole := s.Tokens().Body; err != nil || c.code != "too-large" && whole != tokens(len(text)) {
			t.Errorf("%s: %v, body of %d tokens, want %d", name, err, whole, tokens(len(text)))
		}
	}
}

// TestSize: a file may have at most 1 MiB, when it is found and when it is called.
func TestSize(t *testing.T) {
	head := "---\ndescription: D.\n---\n"
	for size, ok := range map[int]bool{maxFile: true, maxFile + 1: false} {
		fsys := fstest.MapFS{"a/SKILL.md": {Data: []byte(head + strings.Repeat("x", size-len(head)))}}
		cat := Load(t.Context(), FS(fsys, Origin{Kind: User, Trust: Trusted}))
		if got := cat.Skill("a") != nil; got != ok {
			t.Errorf("%d bytes: on load: %v", size, got)
		}
		if _, err := cat.Invoke(t.Context(), Invocation{Name: "a"}); (err == nil) != ok {
			t.Errorf("%d bytes: %v", size, err)
		}
		dir := t.TempDir()
		if err := os.CopyFS(dir, fsys); err != nil {
			t.Fatal(err)
		}
		if _, problems := Check(t.Context(), filepath.Join(dir, "a")); (len(problems) > 0 &&
			problems[0].Code == "too-large") == ok {
			t.Errorf("%d bytes: %v", size, problems)
		}
		if _, problems := Check(t.Context(), filepath.Join(dir, "a")); ok == (problems[0].Severity == Error &&
			problems[0].Code == "too-large") {
			t.Errorf("%d bytes: %v", size, problems)
		}
		if got := Load(t.Context(), Dir(dir, Origin{Kind: User, Trust: Trusted})).Skill("a") != nil; got != ok {
			t.Errorf("%d bytes on disk: on load: %v", size, got)
		}
	}
	grown := &fstest.MapFile{Data: []byte(head)}
	cat := Load(t.Context(), FS(fstest.MapFS{"a/SKILL.md": grown}, Origin{Kind: User, Trust: Trusted}))
	grown.Data = append(grown.Data, make([]byte, maxFile)...)
	if _, err := cat.Invoke(t.Context(), Invocation{Name: "a"}); refusal(t, err).Code != RefusedUnread {
		t.Error(err)
	}
}

// TestReadAgain: a file is read again when its time, its size or its trust changed, and while it is too recent for its
// time to be reliable.
func TestReadAgain(t *testing.T) {
	dir := t.TempDir()
	path := writeSkill(t, dir, "a", "One")
	old := time.Now().Add(-time.Hour)
	write := func(description string, mod time.Time) {
		t.Helper()
		writeSkill(t, dir, "a", description)
		if err := os.Chtimes(path, mod, mod); err != nil {
			t.Fatal(err)
		}
	}
	write("One", old)
	lib := NewLibrary(t.Context(), Dir(dir, Origin{Kind: User, Trust: Trusted}))
	check := func(what, want string) {
		t.Helper()
		if got := lib.Reload(t.Context()).Skill("a").Description; got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	write("Two", old)
	check("no visible change", "One")
	write("Two", old.Add(time.Second))
	check("another time", "Two")
	write("Three", old.Add(time.Second))
	check("another size", "Three")
	young := time.Now().Add(time.Minute)
	write("Four!", young)
	check("another time", "Four!")
	write("Five!", young)
	check("too recent", "Five!")

	// The same file through another link is another skill.
	if runtime.GOOS == "windows" {
		return
	}
	dir = t.TempDir()
	for _, name := range []string{"x", "y"} {
		p := writeSkill(t, dir, name, "In "+name)
		if err := os.Chtimes(p, old, old); err != nil {
			t.Fatal(err)
		}
	}
	at := filepath.Join(dir, "skills", "a")
	if err := os.MkdirAll(at, 0o777); err != nil {
		t.Fatal(err)
	}
	lead := func(name string) {
		os.Remove(filepath.Join(at, "SKILL.md"))
		if err := os.Symlink(filepath.Join(dir, name, "SKILL.md"), filepath.Join(at, "SKILL.md")); err != nil {
			t.Fatal(err)
		}
	}
	lead("x")
	lib = NewLibrary(t.Context(), Dir(filepath.Join(dir, "skills"), Origin{Kind: User, Trust: Trusted}))
	lead("y")
	check("a link that leads elsewhere", "In y")

	// The same holds when the trust in its folder changed.
	trust := Trusted
	lib = NewLibrary(t.Context(), &Folder{Path: filepath.Join(dir, "skills"), Root: filepath.Join(dir, "skills"),
		Origin: Origin{Kind: Project, Trust: Trusted}, Outside: func(string) Trust { return trust }})
	for _, trust = range []Trust{Trusted, Remote, Trusted} {
		if s := lib.Reload(t.Context()).Skill("a"); s == nil || s.Origin.Trust != trust {
			t.Errorf("trust %v: %+v", trust, s)
		}
	}
	trust = Untrusted
	if s := lib.Reload(t.Context()).Skill("a"); s != nil {
		t.Errorf("no longer trusted: %+v", s)
	}
}

// TestChecked: with a Check, trust is decided file by file, on the bytes that are parsed.
func TestChecked(t *testing.T) {
	dir := t.TempDir()
	head := "---\ndescription: D.\n---\n"
	long := strings.Repeat("x", 3*headSize)
	for name, text := range map[string]string{"small": head, "large": head + long, "headed": "---\nlicense: " + long +
		"\ndescription: D.\n---\n",
		"headed-more": "---\nlicense: " + long + "\ndescription: D.\n---\n" + long, "refused": head, "stale": head} {
		putSkill(t, dir, name, text)
	}
	var mu sync.Mutex // the Check runs in parallel
	seen := map[string]string{}
	changed := ""
	f := &Folder{Path: dir, Origin: Origin{Kind: Project}, Check: func(path string, data []byte, head bool) error {
		name := filepath.Base(filepath.Dir(path))
		mu.Lock()
		seen[name] += fmt.Sprintf("%d %v ", len(data), head)
		mu.Unlock()
		switch name {
		case "refused", changed:
			return errors.New("not approved")
		case "stale":
			return Problem{Code: "changed-since-approval", Severity: Warn, Path: path, Message: "it changed"}
		}
		return nil
	}}
	if p := f.Location(); p.Trust != Untrusted {
		t.Errorf("before reading: %+v", p)
	}
	cat := Load(t.Context(), f)
	for name, want := range map[string]string{"small": fmt.Sprint(len(head), " false "), "large": "4096 true ",
		"headed": fmt.Sprint(len(long)+34, " false "), "headed-more": fmt.Sprint(2*len(long)+34, " false ")} {
		if seen[name] != want {
			t.Errorf("%s: %q was checked, want %q", name, seen[name], want)
		}
	}
	states := ""
	for _, e := range cat.Candidates() {
		states += e.Name() + " " + string(e.State) + " "
	}
	if states != "headed active headed-more active large active refused untrusted small active stale untrusted " {
		t.Error(states)
	}
	codes := map[Code]int{}
	for _, p := range cat.Problems() {
		codes[p.Code]++
	}
	if codes["changed-since-approval"] != 1 || codes["unreadable"] != 1 || codes["untrusted"] != 1 {
		t.Errorf("%v", cat.Problems())
	}
	if p := f.Location(); p.Trust != Untrusted || cat.Locations()[0].Trust != Untrusted || cat.Locations()[0].Skills != 6 {
		t.Errorf("%+v, %+v", p, cat.Locations()[0])
	}
	// A file may change after it was found.
	if _, err := cat.Invoke(t.Context(), Invocation{Name: "large"}); err != nil ||
		!strings.HasSuffix(seen["large"], fmt.Sprint(len(head)+len(long), " false ")) {
		t.Errorf("%v, %q", err, seen["large"])
	}
	changed = "large"
	if _, err := cat.Invoke(t.Context(), Invocation{Name: "large"}); refusal(t, err).Code != RefusedUnread {
		t.Error(err)
	}
	if got := Load(t.Context(), f).Skill("large"); got != nil {
		t.Error("a file that did not change was not checked again")
	}
	for _, name := range []string{"refused", "stale", "large"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	Load(t.Context(), f)
	if p := f.Location(); p.Trust != Trusted {
		t.Errorf("with every file approved: %+v", p)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	Load(t.Context(), f)
	if p := f.Location(); p.Trust != Untrusted || !p.Missing {
		t.Errorf("with an empty folder: %+v", p)
	}
}

// unordered yields skills out of order, and an error that is not a Problem.
type unordered struct{}

func (unordered) Skills(context.Context) iter.Seq2[*Skill, error] {
	return func(yield func(*Skill, error) bool) {
		sk := func(name string, trust Trust) *Skill {
			return &Skill{Name: name, ID: name, Label: "l", Path: "/x/" + name + ".md", Description: "D.",
				Origin: Origin{Kind: MCP, Label: "srv", Trust: trust}}
		}
		_ = yield(sk("c", Trusted), nil) && yield(sk("a", Remote), nil) && yield(sk("b", Trusted), io.ErrUnexpectedEOF) &&
			yield(nil, Problem{Code: "x", Severity: Error, Path: "/x/d.md", Message: "first"}) &&
			yield(nil, Problem{Code: "y", Severity: Error, Path: "/x/d.md", Message: "second"}) &&
			yield(nil, Problem{Code: "z", Severity: Error, Path: "/x/a.md", Message: "it loaded"}) &&
			yield(nil, Problem{Code: "w", Severity: Warn, Path: "/x/e.md", Message: "only a warning"}) &&
			yield(nil, Problem{Code: "v", Severity: Error, Path: "/x/dir", Message: "no skill"})
	}
}

// A Source of another package: skills are sorted by name, its location follows from its skills, and a skill that
// cannot be loaded is one entry.
func TestOtherSource(t *testing.T) {
	c := Load(t.Context(), unordered{}, list{{Name: "p", ID: "p", Description: "D.",
		Origin: Origin{Kind: Plugin, Trust: Trusted}}}, list{})
	got := ""
	for _, e := range c.Candidates() {
		got += e.Name() + " " + string(e.State) + " " + string(e.Origin.Kind) + "; "
	}
	if got != "a active mcp; b active mcp; c active mcp; d broken mcp; p active plugin; " {
		t.Error(got)
	}
	if p := c.Problems()[0]; p.Code != "unreadable" || p.Severity != Error || p.Message != "unexpected EOF" {
		t.Errorf("%+v", p)
	}
	ps := c.Locations()
	if len(ps) != 2 || ps[0] != (Location{Kind: MCP, Label: "srv", Trust: Remote, Skills: 3}) || ps[1].Kind != Plugin ||
		ps[1].Trust != Trusted {
		t.Errorf("%+v", ps)
	}
	if _, err := c.Invoke(t.Context(), Invocation{Name: "d"}); refusal(t, err).Code != RefusedUnread ||
		!strings.Contains(err.Error(), "first") {
		t.Error(err)
	}
	if w := c.Why("d", View{}); len(w.Found) != 1 || w.Found[0].Reason != "first" || len(w.Problems) != 2 {
		t.Errorf("%+v", w)
	}
	if c.Skill("l") != nil {
		t.Error("a label shared by several skills calls one of them")
	}
}

// A SKILL.md at the root of a file system has no directory to take its name from.
func TestRootOfFS(t *testing.T) {
	fsys := fstest.MapFS{"SKILL.md": {Data: []byte("---\nname: rooted\ndescription: D.\n---\nText.\n")},
		"references/a.md": {Data: []byte("A")}}
	c := Load(t.Context(), FS(fsys, Origin{Kind: Plugin, Label: "kit", Trust: Trusted}))
	s := c.Skill("rooted")
	if s == nil || s.Path != "plugin:kit:SKILL.md" || s.ID != s.Path || s.Dir != "" {
		t.Fatalf("%+v, %v", s, c.Problems())
	}
	if files, err := s.Resources(t.Context()); err != nil || strings.Join(files, " ") != "references/a.md" {
		t.Errorf("%q, %v", files, err)
	}
}
