package coding

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
)

func TestGrep(t *testing.T) {
	b := newFixture(t, FileOptions{},
		"a.go=package a\n\nfunc A() {}\nfunc B() {}\n", "b/b.go=package b\nfunc C() {}\r\n", "b/.hidden=func hidden\n",
		".git/config=func git\n", "node_modules/x.go=func ignored\n", "b/c.txt=func text\n", "bin=func\x00\n",
		".gitignore=node_modules/\n*.log\n", "x.log=func log\n", "b/.ignore=c.txt\n",
		"long.txt=needle"+strings.Repeat("é", 600)+"\n", "latin.txt=caf\xe9 needle2\n", "-flag=--pre=x\n",
		"ctx=1\n2\nhit\n4\n5\n6\nhit\n8\n", "multi=start\nmiddle\nend\n",
	)
	for _, c := range []struct{ in, want string }{
		{`{"pattern":"^func"}`, "a.go:3: func A() {}\na.go:4: func B() {}\nb/.hidden:1: func hidden\nb/b.go:2: func C() {}"},
		{`{"pattern":"func","glob":"*.go"}`, "a.go:3: func A() {}\na.go:4: func B() {}\nb/b.go:2: func C() {}"},
		{`{"pattern":"func","glob":"b/**"}`, "b/.hidden:1: func hidden\nb/b.go:2: func C() {}"},
		{`{"pattern":"func","glob":"!*.go"}`, "b/.hidden:1: func hidden"},
		{`{"pattern":"func","glob":"./*.{go,txt}"}`, "a.go:3: func A() {}\na.go:4: func B() {}"},
		{`{"pattern":"func","path":"b"}`, ".hidden:1: func hidden\nb.go:2: func C() {}"},
		{`{"pattern":"func","path":"b/b.go"}`, "b.go:2: func C() {}"},
		{`{"pattern":"func","path":"node_modules"}`, "x.go:1: func ignored"},
		{`{"pattern":"FUNC a","ignoreCase":true}`, "a.go:3: func A() {}"},
		{`{"pattern":"A() {","literal":true}`, "a.go:3: func A() {}"},
		{`{"pattern":"func","filesOnly":true}`, "a.go\nb/.hidden\nb/b.go"},
		{`{"pattern":"func","filesOnly":true,"limit":2}`,
			"a.go\nb/.hidden\n\n[2 files limit reached. Use limit=4 for more, or refine the pattern.]"},
		{`{"pattern":"^func","limit":3}`, "a.go:3: func A() {}\na.go:4: func B() {}\nb/.hidden:1: func hidden\n\n[3 " +
			"matches limit reached. Use limit=6 for more, or refine the pattern.]"},
		{`{"pattern":"^func","limit":4}`, "a.go:3: func A() {}\na.go:4: func B() {}\nb/.hidden:1: func hidden\nb/b.go:2: " +
			"func C() {}"},
		{`{"pattern":"^func","limit":1}`, "a.go:3: func A() {}\n\n[1 matches limit reached. Use limit=2 for more, or " +
			"refine the pattern.]"},
		{`{"pattern":"nowhere"}`, "No matches found\n\n[3 paths that ignore files exclude were not searched: give one as path " +
			"to search it.]"},
		{`{"pattern":"needle","path":"long.txt"}`, "long.txt:1: needle" + strings.Repeat("é", 494) +
			"… [truncated]\n\n[Some lines are cut to 500 characters: use read to see them whole.]"},
		{`{"pattern":"needle2"}`, "latin.txt:1: café needle2"},
		{`{"pattern":"--pre=x"}`, "-flag:1: --pre=x"},
		{`{"pattern":"pre","path":"-flag"}`, "-flag:1: --pre=x"},
		{`{"pattern":"hit","context":1}`, "ctx-2- 2\nctx:3: hit\nctx-4- 4\nctx-6- 6\nctx:7: hit\nctx-8- 8"},
		{`{"pattern":"hit","context":1,"limit":1}`, "ctx-2- 2\nctx:3: hit\nctx-4- 4\n\n[1 matches limit reached. Use " +
			"limit=2 for more, or refine the pattern.]"},
		{`{"pattern":"hit","context":5}`,
			"ctx-1- 1\nctx-2- 2\nctx:3: hit\nctx-4- 4\nctx-5- 5\nctx-6- 6\nctx:7: hit\nctx-8- 8"},
		{`{"pattern":"start\\nmid","multiline":true}`, "multi:1: start\nmulti:2: middle"},
		{`{"pattern":"(?s)start.*end","multiline":true}`, "multi:1: start\nmulti:2: middle\nmulti:3: end"},
		{`{"pattern":"start\\nmid"}`, "error: the pattern asks for a line break, but lines are searched one by one: set " +
			"multiline to true"},
		{`{"pattern":"f("}`, "error: invalid regular expression at character 2: missing closing ): `f(` (set literal to " +
			"true to search for the text as it is)"},
		{`{"pattern":"(?!x)"}`, "error: invalid regular expression at character 1: (?! is a negative lookahead, which RE2 " +
			"does not support: search for the wider pattern and leave out what does not fit"},
		{`{"pattern":""}`, "error: pattern is empty: every line would match"},
		{`{"pattern":"x","limit":0}`, "error: limit is 0: it must be at least 1"},
		{`{"pattern":"x","context":-1}`, "error: context is -1: it must be from 0 to 100"},
		{`{"pattern":"x","context":101}`, "error: context is 101: it must be from 0 to 100"},
		{`{"pattern":"--pre=x","context":100}`, "-flag:1: --pre=x"},
		{`{"pattern":"x","path":"nope"}`, "error: Path not found: DIR/nope"},
		{`{"pattern":"x","glob":"[a"}`, `error: invalid glob pattern "[a": a [, { or \ is not closed`},
		{`{"pattern":"x","glob":"/elsewhere/*"}`,
			`error: pattern "/elsewhere/*" is absolute: give the directory as path, and a pattern below it`},
	} {
		b.want(t, "grep", c.in, c.want)
	}
}

func TestGrepOutputLimit(t *testing.T) {
	b := newFixture(t, FileOptions{}, "f="+strings.Repeat(strings.Repeat("x", 400)+"\n", 300),
		"g="+strings.Repeat("y\n", 3000))
	got, res := b.call(t, "grep", `{"pattern":"x","limit":300}`)
	if want := "\n\n[Showing lines 1-125 of 300 (50.0KB limit). " +
		"Search a narrower path, or refine the pattern.]"; !strings.HasSuffix(got, want) {
		t.Errorf("…%.200q", got[max(0, len(got)-150):])
	}
	if d := res.Details.(GrepDetails); d.Matches != 300 || d.Files != 1 || d.Cut == nil || d.Cut.Lines != 125 {
		t.Errorf("%+v", d)
	}
	got, _ = b.call(t, "grep", `{"pattern":"y","limit":3000}`)
	if want := "\n\n[Showing lines 1-2000 of 3000 (2000 lines limit). " +
		"Search a narrower path, or refine the pattern.]"; !strings.HasSuffix(got, want) {
		t.Errorf("…%.200q", got[max(0, len(got)-150):])
	}
}

// Without a limit in the call the tool's own applies, and is mentioned only if there is more.
func TestOwnLimits(t *testing.T) {
	b := newFixture(t, FileOptions{}, "grep/f="+strings.Repeat("x\n", 100), "more/f="+strings.Repeat("x\n", 101))
	for dir, n := range map[string]int{"find": 1001, "1000": 1000, "ls": 501, "500": 500} {
		putMany(t, b.path(dir), "%04d", n)
	}
	for _, c := range []struct {
		tool, in string
		lines    int
		notice   string
	}{
		{"grep", `{"pattern":"x","path":"grep"}`, 100, ""},
		{"grep", `{"pattern":"x","path":"more"}`, 100,
			"[100 matches limit reached. Use limit=200 for more, or refine the pattern.]"},
		{"find", `{"pattern":"*","path":"1000"}`, 1000, ""},
		{"find", `{"pattern":"*","path":"find"}`, 1000,
			"[1000 results limit reached. Use limit=2000 for more, or refine the pattern.]"},
		{"ls", `{"path":"500"}`, 500, ""},
		{"ls", `{"path":"ls"}`, 500, "[500 entries limit reached. Use limit=1000 for more, or use find with a name.]"},
	} {
		got, _ := b.call(t, c.tool, c.in)
		text, notice, _ := strings.Cut(got, "\n\n")
		if n := strings.Count(text, "\n") + 1; n != c.lines || notice != c.notice {
			t.Errorf("%s %s: %d lines, %q", c.tool, c.in, n, notice)
		}
	}
}

// A list is also limited by size, and both limits are reported in one line.
func TestListCut(t *testing.T) {
	b := newFixture(t, FileOptions{})
	putMany(t, b.path("d"), "%0200d", 600)
	for _, c := range []struct{ tool, in, want string }{
		{"find", `{"pattern":"*","path":"d"}`, "[Showing 254 of 600 (50.0KB limit). To see the rest, refine the pattern.]"},
		{"find", `{"pattern":"*","path":"d","limit":300}`,
			"[300 results limit reached. Use limit=600 for more, or refine the pattern. Showing 254 of 300 (50.0KB limit). " +
				"To see the rest, refine the pattern.]"},
		{"ls", `{"path":"d","limit":600}`, "[Showing 254 of 600 (50.0KB limit). To see the rest, use find with a name.]"},
	} {
		got, res := b.call(t, c.tool, c.in)
		text, notice, _ := strings.Cut(got, "\n\n")
		if strings.Count(text, "\n") != 253 || notice != c.want || res.Details.(ListDetails).Cut == nil {
			t.Errorf("%s %s: %d lines, %q", c.tool, c.in, strings.Count(text, "\n")+1, notice)
		}
	}
}

func TestFind(t *testing.T) {
	b := newFixture(t, FileOptions{}, "a.go=", "b/c.go=", "b/d/e.go=", "b/.hid.d/f=", ".git/HEAD=", "sub/.git=gitdir: x",
		"node_modules/y.go=",
		".gitignore=node_modules\n", "B.GO=", "we ird.txt=", "-rf=")
	if err := os.Symlink("b", b.path("link")); err != nil {
		t.Skip("no links: ", err)
	}
	for _, c := range []struct{ in, want string }{
		{`{"pattern":"*.go"}`, "a.go\nb/c.go\nb/d/e.go"},
		{`{"pattern":"b/*.go"}`, "b/c.go"},
		{`{"pattern":"./*.go"}`, "a.go"},
		{`{"pattern":"**/*.go"}`, "a.go\nb/c.go\nb/d/e.go"},
		{`{"pattern":"b/**/*.go"}`, "b/c.go\nb/d/e.go"},
		{`{"pattern":"*.go","path":"b"}`, "c.go\nd/e.go"},
		{`{"pattern":"{a,c}.go"}`, "a.go\nb/c.go"},
		{`{"pattern":"*","limit":3}`, "-rf\n.gitignore\nB.GO\n\n[3 results limit reached. Use limit=6 for more, or refine " +
			"the pattern.]"},
		{`{"pattern":"d/"}`, "b/d/"},
		{`{"pattern":".*"}`, ".gitignore\nb/.hid.d/"},
		{`{"pattern":"link"}`, "link"},
		{`{"pattern":"-rf"}`, "-rf"},
		{`{"pattern":"nope"}`, "No files found matching pattern\n\n[1 path that ignore files exclude was not searched: give " +
			"one as path to search it.]"},
		{`{"pattern":"*.go","limit":3}`, "a.go\nb/c.go\nb/d/e.go"},
		{fmt.Sprintf(`{"pattern":"%s/b/*.go"}`, filepath.ToSlash(b.dir)), "b/c.go"},
		{fmt.Sprintf(`{"pattern":"%s/*.go"}`, filepath.ToSlash(b.dir)), "a.go"},
		{`{"pattern":""}`, "error: the glob pattern is empty"},
		{`{"pattern":"{a"}`, `error: invalid glob pattern "{a": a [, { or \ is not closed`},
		{`{"pattern":"*","path":"a.go"}`, "error: Not a directory: DIR/a.go"},
		{`{"pattern":"*","path":"nope"}`, "error: Path not found: DIR/nope"},
		{`{"pattern":"*","limit":-1}`, "error: limit is -1: it must be at least 1"},
	} {
		b.want(t, "find", c.in, c.want)
	}
}

func TestLs(t *testing.T) {
	b := newFixture(t, FileOptions{}, "b=", "A=", "a=", "C/x=", ".dot=", "é=")
	if err := os.MkdirAll(b.path("empty"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("C", b.path("link")); err != nil {
		t.Skip("no links: ", err)
	}
	if err := os.Symlink("nowhere", b.path("broken")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ in, want string }{
		{`{}`, ".dot\nA\na\nb\nbroken\nC/\nempty/\nlink/\né"},
		{`{"path":"empty"}`, "(empty directory)"},
		{`{"path":"link"}`, "x"},
		{`{"limit":2}`, ".dot\nA\n\n[2 entries limit reached. Use limit=4 for more, or use find with a name.]"},
		{`{"limit":9}`, ".dot\nA\na\nb\nbroken\nC/\nempty/\nlink/\né"},
		{`{"path":"b"}`, "error: Not a directory: DIR/b"},
		{`{"path":"nope"}`, "error: Path not found: DIR/nope"},
		{`{"limit":0}`, "error: limit is 0: it must be at least 1"},
	} {
		b.want(t, "ls", c.in, c.want)
	}
}

// TestSecrets: grep and find omit secrets and report how many.
func TestSecrets(t *testing.T) {
	secret := func(path string) bool {
		return strings.HasPrefix(filepath.Base(path), ".env") || filepath.Base(path) == "keys"
	}
	b := newFixture(t, FileOptions{Secret: secret}, ".env=TOKEN=1\n", "a=TOKEN=2\n", "keys/id=TOKEN=3\n",
		"keys/id2=TOKEN=4\n", "sub/.env.local=TOKEN\n")
	b.want(t, "grep", `{"pattern":"TOKEN"}`, "a:1: TOKEN=2\n\n[3 paths that may hold secrets were left out.]")
	b.want(t, "grep", `{"pattern":"nothing","path":"sub"}`,
		"No matches found\n\n[1 path that may hold secrets was left out.]")
	b.want(t, "find", `{"pattern":"*"}`, "a\nsub/\n\n[3 paths that may hold secrets were left out.]")
	// A failed edit does not show a secret's nearest line.
	b.want(t, "edit", `{"path":".env","edits":[{"oldText":"TOKEN=9","newText":"x"}]}`,
		"error: the edits do not fit the file")
}

// Without a Secret func in the options, the list of package permission is used.
func TestSecretList(t *testing.T) {
	b := newFixture(t, FileOptions{}, ".env=K\n", "sub/ID_rsa=K\n", "x.PEM=K\n", "service-account-1.json=K\n",
		"src/env.go=K\n", "a.key.go=K\n", ".ssh/config=K\n")
	t.Setenv("HOME", b.dir)
	t.Setenv("USERPROFILE", b.dir)
	b.want(t, "grep", `{"pattern":"K"}`,
		"a.key.go:1: K\nsrc/env.go:1: K\n\n[5 paths that may hold secrets were left out.]")
	// the directory
	b.want(t, "grep", `{"pattern":"K","glob":"*.go"}`,
		"a.key.go:1: K\nsrc/env.go:1: K\n\n[1 path that may hold secrets was left out.]")
	b.want(t, "find", `{"pattern":"*.PEM"}`, "No files found matching pattern\n\n[2 paths that may hold secrets were "+
		"left out.]")
	b.want(t, "edit", `{"path":".env","edits":[{"oldText":"Q","newText":"x"}]}`, "error: the edits do not fit the file")
}

// A walk omits exactly the files whose reading needs approval.
func TestSecretListIsPermissions(t *testing.T) {
	home := t.TempDir()
	linked := filepath.Join(t.TempDir(), "Linked")
	if err := os.Symlink(home, linked); err != nil {
		t.Skip("no links: ", err)
	}
	t.Setenv("HOME", linked)
	t.Setenv("USERPROFILE", linked)
	home, err := filepath.EvalSymlinks(home)
	if err != nil {
		t.Fatal(err)
	}
	ws, err := workspace.NewLocal(home)
	if err != nil {
		t.Fatal(err)
	}
	place := permission.PathContext{Dir: home, Home: linked}
	secret := FileOptions{}.secretIn(ws)
	for _, s := range permission.Secrets() {
		s = strings.NewReplacer("**", "7", "*", "x").Replace(s)
		for _, root := range []string{home, linked, "/"} {
			file := filepath.Join(root, strings.Trim(s, "/~"))
			for _, file := range []string{file, file + "/in", file + "x", filepath.Dir(file)} {
				if secret(file) != place.Secret(file) {
					t.Errorf("%s: omitted %v", file, secret(file))
				}
			}
		}
	}
}

// Ignore files count from the repository's root down, wherever the search begins, and outside repositories too.
func TestIgnoreAbove(t *testing.T) {
	b := newFixture(t, FileOptions{}, ".gitignore=*.gen\n", "repo/.git/info/exclude=local\n", "repo/.gitignore=*.tmp\n",
		"repo/d/e/x.tmp=m\n", "repo/d/e/x.gen=m\n", "repo/d/e/local=m\n", "repo/d/e/x=m\n", "plain/x.gen=m\n", "plain/x=m\n")
	b.want(t, "grep", `{"pattern":"m","path":"repo/d/e"}`, "x:1: m\nx.gen:1: m")
	b.want(t, "grep", `{"pattern":"m","path":"plain"}`, "x:1: m")
}

// remoteWS is a Local that does not report its files as local.
type remoteWS struct {
	l        *workspace.Local
	searches *[]string
}

func (r remoteWS) Dir() string                                              { return r.l.Dir() }
func (r remoteWS) Path(path string) string                                  { return r.l.Path(path) }
func (r remoteWS) Lstat(ctx context.Context, p string) (fs.FileInfo, error) { return r.l.Lstat(ctx, p) }
func (r remoteWS) Stat(ctx context.Context, p string) (fs.FileInfo, error)  { return r.l.Stat(ctx, p) }
func (r remoteWS) Realpath(ctx context.Context, p string) (string, error) {
	return r.l.Realpath(ctx, p)
}
func (r remoteWS) Open(ctx context.Context, p string) (workspace.File, error) {
	return r.l.Open(ctx, p)
}
func (r remoteWS) ReadDir(ctx context.Context, p string) ([]fs.DirEntry, error) {
	return r.l.ReadDir(ctx, p)
}

type globbingWS struct{ remoteWS }

func (r globbingWS) ReadDir(context.Context, string) ([]fs.DirEntry, error) {
	return nil, errors.New("listed a directory although it can list all at once")
}

func (r globbingWS) Glob(ctx context.Context, dir string, yield func(string, fs.FileInfo) error) error {
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return yield(p, info)
	})
}

func (r globbingWS) Search(_ context.Context, dir, literal string, fold bool) ([]string, error) {
	*r.searches = append(*r.searches, literal)
	return []string{filepath.Join(dir, "b/b.go")}, nil
}

// A remote workspace gives the same results.
func TestRemoteTree(t *testing.T) {
	b := newFixture(t, FileOptions{}, "a.go=func A\n", "b/b.go=func B\n", "b/x.log=func log\n", ".gitignore=*.log\n",
		".git/x=func git\n")
	var searches []string
	plain := remoteWS{l: b.ws}
	globbing := globbingWS{remoteWS{l: b.ws, searches: &searches}}
	for _, ws := range []treeFS{plain, globbing} {
		b.tools = tool.Set{grepTool(ws, FileOptions{}), findTool(ws, FileOptions{})}
		if _, ok := ws.(globFS); !ok {
			b.want(t, "grep", `{"pattern":"func"}`, "a.go:1: func A\nb/b.go:1: func B")
		} else {
			b.want(t, "grep", `{"pattern":"fu[n]c B"}`, "b/b.go:1: func B")
			b.want(t, "grep", `{"pattern":"[fx][uy][nz]"}`, "a.go:1: func A\nb/b.go:1: func B")
		}
		b.want(t, "find", `{"pattern":"*"}`, ".gitignore\na.go\nb/\nb/b.go")
	}
	if len(searches) != 1 || searches[0] != "func B" {
		t.Errorf("searches: %q", searches)
	}
	b.tools = tool.Set{readTool(plain, NewMemory(), FileOptions{})}
	b.want(t, "read", `{"path":"~/x"}`,
		"error: ~ is not known in this workspace: write the path in full, or relative to DIR")
}

// hugeWS has more below its directory than can be listed at once.
type hugeWS struct{ remoteWS }

func (hugeWS) Glob(context.Context, string, func(string, fs.FileInfo) error) error {
	return errors.New("too much")
}

// TestListRemoteDirectory: ls reads one directory, not all that is below it, which may be the whole disk of a machine.
// Found by attack: ls of / failed at 64 MB.
func TestListRemoteDirectory(t *testing.T) {
	b := newFixture(t, FileOptions{}, "a.go=\n", "b/b.go=\n")
	b.tools = tool.Set{lsTool(hugeWS{remoteWS{l: b.ws}}, FileOptions{})}
	b.want(t, "ls", `{}`, "a.go\nb/")
}

// slowWS cancels a call while it lists the directory z.
type slowWS struct {
	remoteWS
	cancel func()
}

func (s slowWS) ReadDir(ctx context.Context, p string) ([]fs.DirEntry, error) {
	if filepath.Base(p) == "z" {
		time.Sleep(time.Second) // until all others wait for it
		s.cancel()
	}
	return s.remoteWS.ReadDir(ctx, p)
}

// A search that is cancelled shows what it has found.
func TestCancelKeepsFound(t *testing.T) {
	b := newFixture(t, FileOptions{}, "a/b=x\n", "z/c=x\n")
	for _, c := range []struct{ name, in, want string }{
		{"find", `{"pattern":"*"}`, "a/\na/b\nz/"},
		{"grep", `{"pattern":"x"}`, "a/b:1: x"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ws := slowWS{remoteWS{l: b.ws}, cancel}
			tools := tool.Set{grepTool(ws, FileOptions{}), findTool(ws, FileOptions{})}
			res := tool.Call(ctx, tools, llm.ToolCall{Name: c.name, Input: []byte(c.in)}, tool.AllowAll, nil)
			if !res.IsError || len(res.Parts) != 2 || res.Parts[0].Text != c.want ||
				res.Parts[1].Text != c.name+" did not finish: it was cancelled" {
				t.Errorf("%s: %+v", c.name, res)
			}
		})
	}
}

// lockedWS fails to open files of one name.
type lockedWS struct{ remoteWS }

func (l lockedWS) Open(ctx context.Context, p string) (workspace.File, error) {
	if filepath.Base(p) == "locked" {
		return nil, &fs.PathError{Op: "open", Path: p, Err: fs.ErrPermission}
	}
	return l.remoteWS.Open(ctx, p)
}

// Files that could not be read are reported.
func TestUnreadable(t *testing.T) {
	b := newFixture(t, FileOptions{}, "a=x\n", "d/locked=x\n", ".env=x\n")
	b.tools = tool.Set{grepTool(lockedWS{remoteWS{l: b.ws}}, FileOptions{})}
	b.want(t, "grep", `{"pattern":"x"}`, "a:1: x\n\n[1 path that may hold secrets was left out. 1 path could not be "+
		"read (d/locked: permission denied).]")
	b.want(t, "grep", `{"pattern":"x","path":"d/locked"}`, "error: Permission denied: DIR/d/locked")
}

func TestCancel(t *testing.T) {
	b := newFixture(t, FileOptions{}, "a=x\n", "b/c=x\n")
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the user pressed Esc")
	cancel(why)
	for name, in := range map[string]string{
		"read": `{"path":"a"}`, "edit": `{"path":"a","edits":[{"oldText":"x","newText":"y"}]}`,
		"write": `{"path":"a","content":"y"}`, "grep": `{"pattern":"x"}`, "find": `{"pattern":"*"}`,
	} {
		tl, _ := b.tools.Find(name)
		if res, err := tl.Run(ctx, tool.Input{JSON: []byte(in)}); !errors.Is(err, why) {
			t.Errorf("%s: %v, %v", name, res, err)
		}
	}
	if b.content(t, "a") != "x\n" {
		t.Error("a cancelled call changed the file")
	}
}

// TestIgnoredInside: a directory that is named, and whose files are all ignored, is not just empty.
func TestIgnoredInside(t *testing.T) {
	b := newFixture(t, FileOptions{}, ".gitignore=scripts/*\n", "scripts/a.sh=find me\n", "scripts/b.sh=x\n")
	const note = "\n\n[2 paths that ignore files exclude were not searched: give one as path to search it.]"
	b.want(t, "grep", `{"pattern":"find me","path":"scripts"}`, "No matches found"+note)
	b.want(t, "find", `{"pattern":"*.sh","path":"scripts"}`, "No files found matching pattern"+note)
	b.want(t, "grep", `{"pattern":"find me","path":"scripts/a.sh"}`, "a.sh:1: find me")
}
