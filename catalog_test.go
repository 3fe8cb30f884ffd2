package knack

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/tools/txtar"

	"github.com/knack-agent/knack/internal/leaf/subpath"
)

var updateGolden = flag.Bool("update", false, "rewrite the golden parts of the .txtar cases")

// TestCatalog runs the cases of testdata/catalog. The comment of a case contains, one per line, sources in order and
// queries:
//
//	dir KIND PATH [untrusted] [remote] [files] [commands] [label=L] [nested=N] [root=PATH] [base=PATH] [prefix=P]
//	link TARGET NAME
//	view [for=user] [window=N] [budget=N] [max=N] [used=a,b] [touched=a,b] [over=NAME:STATE] [only=a,b] [index]
//	why NAME
//	skill NAME
//	invoke NAME [by=user] [over=NAME:STATE] [touched=a,b]
//
// The last section, want, is golden. x*300 means 300 letters x.
func TestCatalog(t *testing.T) {
	wantCases(t, "catalog", runCase)
}

// prefixed renames the skills of a source to PREFIX:NAME, as those of plugins and servers are named.
type prefixed struct {
	Source
	prefix string
}

func (p prefixed) Skills(ctx context.Context) iter.Seq2[*Skill, error] {
	return func(yield func(*Skill, error) bool) {
		for s, err := range p.Source.Skills(ctx) {
			if s != nil {
				renamed := *s
				renamed.Name = p.prefix + ":" + renamed.Name
				s = &renamed
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

func (p prefixed) Location() Location { return locationOf(p.Source) }

// wantCases runs the cases of a directory of testdata and compares what run returns for each with its last section,
// want.
func wantCases(t *testing.T, dir string, run func(t *testing.T, a *txtar.Archive) string) {
	cases, err := filepath.Glob("testdata/" + dir + "/*.txtar")
	if err != nil || len(cases) == 0 {
		t.Fatal("no cases", err)
	}
	for _, name := range cases {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			last := &a.Files[len(a.Files)-1]
			if last.Name != "want" {
				t.Fatal("the last section is not want")
			}
			got := run(t, a)
			if *updateGolden {
				last.Data = []byte(got)
				if err := os.WriteFile(name, txtar.Format(a), 0o666); err != nil {
					t.Fatal(err)
				}
			} else if got != string(last.Data) {
				t.Errorf("got:\n%s\nwant:\n%s", got, last.Data)
			}
		})
	}
}

func runCase(t *testing.T, a *txtar.Archive) string {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(root, filepath.FromSlash(name)) }
	for _, f := range a.Files[:len(a.Files)-1] {
		if err := os.MkdirAll(filepath.Dir(at(f.Name)), 0o777); err != nil {
			t.Fatal(err)
		}
		data := expandX(f.Data)
		if string(data) == "UTF-16\n" { // which a text file cannot contain
			data = []byte("\xff\xfe")
		}
		if err := os.WriteFile(at(f.Name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var sources []Source
	var cat *Catalog
	var out strings.Builder
	load := func() {
		if cat != nil {
			return
		}
		cat = Load(context.Background(), sources...)
		for _, e := range cat.Candidates() {
			fmt.Fprintf(&out, "%s %s %s", e.Name(), e.Origin.Kind, cat.State(e, View{For: ByModel}))
			if e.Winner != nil {
				fmt.Fprintf(&out, ", not %s", e.Winner.Path)
			}
			out.WriteByte('\n')
		}
		for _, p := range cat.Problems() {
			if p.Code != "name-missing" && p.Code != "name-dir-mismatch" { // reported by the parser
				fmt.Fprintf(&out, "! %s %s %s\n", p.Severity, p.Code, p)
			}
		}
	}
	for line := range strings.Lines(string(a.Comment)) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		opts := map[string]string{}
		for _, w := range words[1:] {
			key, value, _ := strings.Cut(w, "=")
			opts[key] = value
		}
		has := func(key string) bool { _, ok := opts[key]; return ok }
		list := func(key string) []string {
			return strings.FieldsFunc(opts[key], func(r rune) bool { return r == ',' })
		}
		switch words[0] {
		case "dir":
			f := &Folder{Path: at(words[2]), Files: has("files"), Commands: has("commands"),
				Origin: Origin{Kind: SourceKind(words[1]), Trust: Trusted, Label: opts["label"], Nested: opts["nested"], Dir: root}}
			if has("untrusted") {
				f.Origin.Trust = Untrusted
			}
			if has("remote") {
				f.Origin.Trust = Remote
			}
			if has("root") {
				f.Root = at(opts["root"])
			}
			if has("base") {
				f.Origin.Dir = at(opts["base"])
			}
			if has("outside") {
				f.Outside = func(dir string) Trust {
					if subpath.Contains(at(opts["outside"]), dir) {
						return Trusted
					}
					return Untrusted
				}
			}
			if has("prefix") {
				sources = append(sources, prefixed{f, opts["prefix"]})
			} else {
				sources = append(sources, f)
			}
		case "link":
			if err := os.Symlink(filepath.FromSlash(words[1]), at(words[2])); err != nil {
				t.Skip("symbolic links do not work on this system: ", err)
			}
		case "view":
			load()
			v := View{For: ByModel, Dir: root, Index: has("index"), Used: list("used"), Overrides: map[string]SkillState{}}
			if opts["for"] == "user" {
				v.For = ByUser
			}
			v.Window, _ = strconv.Atoi(opts["window"])
			v.MaxChars, _ = strconv.Atoi(opts["max"])
			v.Budget, _ = strconv.ParseFloat(cmp.Or(opts["budget"], "0"), 64)
			for _, p := range list("touched") {
				v.Touched = append(v.Touched, at(p))
			}
			for _, o := range list("over") {
				i := strings.LastIndexByte(o, ':')
				v.Overrides[o[:i]] = SkillState(o[i+1:])
			}
			if has("only") {
				v.Only = list("only")
			}
			l := cat.Listing(v)
			fmt.Fprintf(&out, "\n> %s", line)
			if !v.Index { // an index contains paths of this machine
				fmt.Fprintf(&out, "%d of %d characters\n", l.Chars, l.Budget)
			}
			out.WriteString(l.Text)
			for _, e := range l.Entries {
				if e.Cut != Whole && !v.Index {
					fmt.Fprintf(&out, "cut %s: %d of %d, %s\n", e.Skill.Name, e.Chars, e.Full, e.Cut)
				}
			}
			for _, p := range l.Problems {
				fmt.Fprintf(&out, "! %s %s %s\n", p.Severity, p.Code, p)
			}
			if again := cat.Listing(v); again.Text != l.Text {
				t.Error("the same view returns a different text")
			}
		case "why":
			load()
			w := cat.Why(words[1], View{})
			fmt.Fprintf(&out, "\n> %s", line)
			for _, f := range w.Found {
				fmt.Fprintf(&out, "%s %s: %s\n", f.As, f.State, f.Reason)
			}
			if len(w.Near) > 0 {
				fmt.Fprintf(&out, "near: %s\n", strings.Join(w.Near, " "))
			}
		case "skill":
			load()
			fmt.Fprintf(&out, "\n> %s", line)
			if s := cat.Skill(words[1]); s != nil {
				fmt.Fprintf(&out, "%s %s\n", s.Name, s.Path)
			} else {
				why := ""
				if no := cat.refusalFor(words[1]); no != nil {
					why = no.Message
				}
				fmt.Fprintf(&out, "nil %s\n", why)
			}
		case "invoke":
			load()
			in := Invocation{Name: words[1], By: ByModel, View: View{Overrides: map[string]SkillState{}}}
			if opts["by"] == "user" {
				in.By = ByUser
			}
			for _, o := range list("over") {
				i := strings.LastIndexByte(o, ':')
				in.View.Overrides[o[:i]] = SkillState(o[i+1:])
			}
			for _, p := range list("touched") {
				in.View.Touched = append(in.View.Touched, at(p))
			}
			a, err := cat.Invoke(context.Background(), in)
			fmt.Fprintf(&out, "\n> %s", line)
			var r *Refusal
			switch {
			case errors.As(err, &r):
				fmt.Fprintf(&out, "refused %d: %s\n", r.Code, r.Message)
			case err != nil:
				t.Fatal(err)
			default:
				fmt.Fprintf(&out, "dir %q, %s\n%s\n", filepath.ToSlash(a.Dir), a.Notice, a.Prompt)
			}
		default:
			t.Fatalf("unknown line: %s", line)
		}
	}
	load()
	text := strings.ReplaceAll(out.String(), root+string(filepath.Separator), "")
	text = strings.ReplaceAll(text, root, ".")
	return shortenX(filepath.ToSlash(text))
}

// TestCheck runs the cases of testdata/check: skills, queries in the comment, one per line, and the problems reported
// to the authors:
//
//	check PATH
//	chmod MODE PATH
//	link TARGET NAME
func TestCheck(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	wantCases(t, "check", func(t *testing.T, a *txtar.Archive) string {
		root, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		at := func(name string) string { return filepath.Join(root, filepath.FromSlash(name)) }
		for _, f := range a.Files[:len(a.Files)-1] {
			err := os.MkdirAll(filepath.Dir(at(f.Name)), 0o777)
			if err == nil {
				err = os.WriteFile(at(f.Name), bytes.ReplaceAll(expandX(f.Data), []byte("LATIN1"), []byte("caf\xe9")), 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		var out strings.Builder
		for line := range strings.Lines(string(a.Comment)) {
			words := strings.Fields(line)
			if len(words) < 2 {
				continue
			}
			switch words[0] {
			case "check":
				fmt.Fprintf(&out, "> %s", line)
				s, problems := Check(t.Context(), at(words[1]))
				if s == nil {
					out.WriteString("cannot be read\n")
				}
				for _, p := range problems {
					fmt.Fprintf(&out, "%s %s %s\n", p.Severity, p.Code,
						strings.TrimPrefix(p.String(), at(words[1])+string(filepath.Separator)))
					if p.Hint == "" && p.Severity != Info {
						t.Errorf("%s: no hint", p)
					}
				}
			case "chmod":
				mode, err := strconv.ParseUint(words[1], 8, 32)
				if err == nil {
					err = os.Chmod(at(words[2]), os.FileMode(mode))
				}
				if err != nil {
					t.Fatal(err)
				}
			case "link":
				if err := os.Symlink(words[1], at(words[2])); err != nil {
					t.Fatal(err)
				}
			}
		}
		return shortenX(strings.ReplaceAll(out.String(), root+"/", ""))
	})
}

var stars = regexp.MustCompile(`x\*\d+`)
var runs = regexp.MustCompile(`x{20,}`)

func expandX(text []byte) []byte {
	return stars.ReplaceAllFunc(text, func(m []byte) []byte {
		n, _ := strconv.Atoi(string(m[2:]))
		return bytes.Repeat([]byte("x"), n)
	})
}

func shortenX(text string) string {
	return runs.ReplaceAllStringFunc(text, func(m string) string { return fmt.Sprintf("x*%d", len(m)) })
}

// TestCalledNames: a name finds what is listed under it, KIND:NAME what lost the name.
func TestCalledNames(t *testing.T) {
	all, problems := (&Catalog{}).Commands(View{},
		[]SlashCommand{{Name: "help", Kind: "command"}},
		[]SlashCommand{{Name: "help", Kind: "template", Source: "/t/help.md"},
			{Name: "say", Kind: "template", Source: "/t/say.md"}, {Name: "say", Kind: "command"}})
	for name, want := range map[string]string{
		"help": "command", "template:help": "template", "command:help": "command", "say": "template",
		"template:say": "template", "command:say": "command", "skill:say": "", "nope": "", "": "", ":": "",
	} {
		if c, ok := Called(all, name); string(c.Kind) != want || ok != (want != "") {
			t.Errorf("%q calls %q, %v; want %q", name, c.Kind, ok, want)
		}
	}
	got := ""
	for _, p := range problems {
		got += string(p.Severity) + " " + p.String() + "\n"
	}
	if want := "warn /t/help.md: /help is a built-in command: this template is called /template:help\n" +
		"info /say is the template /t/say.md: this command is called /command:say\n"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if got := Near("hlep", []string{"quit", "help", "heap", "help", "session"}); len(got) == 0 || got[0] != "help" ||
		len(got) > 3 {
		t.Errorf("near hlep: %q", got)
	}
}

// TestTouchedDirectory: a directory counts as touched for skills whose globs match everything in it.
func TestTouchedDirectory(t *testing.T) {
	fsys := fstest.MapFS{}
	for name, paths := range map[string]string{"all": "src/**", "dir": "src/", "go": "src/**/*.go", "other": "doc/**"} {
		fsys[name+"/SKILL.md"] = &fstest.MapFile{Data: []byte("---\ndescription: x\npaths: " + paths + "\n---\n")}
	}
	c := Load(t.Context(), FS(fsys, Origin{Kind: User, Trust: Trusted}))
	view := View{For: ByModel, Dir: "/w", Touched: []string{"/w/src/api"}}
	for name, want := range map[string]bool{"all": true, "dir": true, "go": false, "other": false} {
		if got := c.whyUnavailable(c.Skill(name), view, ByModel) == ""; got != want {
			t.Errorf("%s is active: %t", name, got)
		}
	}
}
