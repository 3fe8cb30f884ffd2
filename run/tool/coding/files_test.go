package coding

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/truncate"
)

// A fixture has the file tools for a directory.
type fixture struct {
	dir   string
	ws    *workspace.Local
	state *Memory
	opts  FileOptions
	tools tool.Set
}

// newFixture makes the directory from "name=content" entries.
func newFixture(t testing.TB, o FileOptions, files ...string) *fixture {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name, text, _ := strings.Cut(f, "=")
		put(t, filepath.Join(dir, filepath.FromSlash(name)), text)
	}
	ws, err := workspace.NewLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	b := &fixture{dir: dir, ws: ws, state: NewMemory(), opts: o}
	b.tools = Tools(ws, Options{State: b.state, Files: o})
	return b
}

func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// putMany makes n empty files, named by their numbers in a format. Where the system can, they are names of one file:
// to create and remove thousands of files takes seconds.
func putMany(t testing.TB, dir, format string, n int) {
	t.Helper()
	first := filepath.Join(dir, fmt.Sprintf(format, 0))
	put(t, first, "")
	for i := 1; i < n; i++ {
		if path := filepath.Join(dir, fmt.Sprintf(format, i)); os.Link(first, path) != nil {
			put(t, path, "")
		}
	}
}

func (b *fixture) path(name string) string { return filepath.Join(b.dir, filepath.FromSlash(name)) }

func (b *fixture) content(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(b.path(name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// call runs a tool as the pipeline does, without a gate.
func (b *fixture) call(t testing.TB, name, input string) (string, tool.Result) {
	t.Helper()
	tl, ok := b.tools.Find(name)
	if !ok {
		t.Fatalf("no tool %s", name)
	}
	if !json.Valid([]byte(input)) {
		t.Fatalf("%s is not JSON", input)
	}
	res, err := tl.Run(t.Context(), tool.Input{JSON: tl.Decode([]byte(input)), Progress: func(tool.Result) {}})
	if err != nil {
		return "error: " + err.Error(), tool.Result{IsError: true}
	}
	var text strings.Builder
	for _, p := range res.Parts {
		text.WriteString(p.Text)
	}
	return strings.ReplaceAll(text.String(), b.dir, "DIR"), res
}

// want checks the text of a call's result.
func (b *fixture) want(t testing.TB, name, input, want string) {
	t.Helper()
	got, _ := b.call(t, name, input)
	if got = strings.ReplaceAll(got, b.dir, "DIR"); got != want {
		t.Errorf("%s %s:\n got %.600q\nwant %.600q", name, input, got, want)
	}
}

// numbered returns n lines that contain their numbers.
func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%d\n", i+1)
	}
	return b.String()
}

func upTo(from, to int) string {
	lines := strings.SplitAfter(numbered(to), "\n")
	return strings.Join(lines[from-1:], "")
}

func TestReadBoundaries(t *testing.T) {
	b := newFixture(t, FileOptions{},
		"2000="+numbered(2000), "2001="+numbered(2001), "2000x="+numbered(2000)+"x",
		"51200="+strings.Repeat(strings.Repeat("a", 1023)+"\n", 50), // the last line break is not counted
		"51201="+strings.Repeat(strings.Repeat("a", 1023)+"\n", 49)+strings.Repeat("b", 1025),
		"51200x="+strings.Repeat("a", 51200), "51200n="+strings.Repeat("a", 51200)+"\n",
		"51201n="+strings.Repeat("a", 51201)+"\n", "long="+strings.Repeat("a", 60000)+"\nb\n", "100="+numbered(100), "empty=",
		"newline=\n", "x y=a\n"+strings.Repeat("é", 30000),
	)
	trim := func(s string) string { return strings.TrimSuffix(s, "\n") }
	for _, c := range []struct{ in, want string }{
		{`{"path":"2000"}`, numbered(2000)},
		{`{"path":"2001"}`, trim(numbered(2000)) + "\n\n[Showing lines 1-2000 of 2001. Use offset=2001 to continue.]"},
		{`{"path":"2001","offset":2001}`, "2001\n"},
		{`{"path":"2001","offset":2}`, upTo(2, 2001)},
		{`{"path":"2000x"}`, trim(numbered(2000)) + "\n\n[Showing lines 1-2000 of 2001. Use offset=2001 to continue.]"},
		{`{"path":"2000x","offset":2001}`, "x"},
		{`{"path":"51200"}`, strings.Repeat(strings.Repeat("a", 1023)+"\n", 50)},
		{`{"path":"51201"}`, trim(strings.Repeat(strings.Repeat("a", 1023)+"\n", 49)) +
			"\n\n[Showing lines 1-49 of 50 (50.0KB limit). Use offset=50 to continue.]"},
		{`{"path":"51200x"}`, strings.Repeat("a", 51200)},
		{`{"path":"51200n"}`, strings.Repeat("a", 51200) + "\n"},
		{`{"path":"51201n"}`, "[Line 1 is 50.0KB, exceeds 50.0KB limit. Use bash: sed -n '1p' DIR/51201n | head -c 51200]"},
		{`{"path":"2001","limit":2000}`, trim(numbered(2000)) + "\n\n[1 more line in file. Use offset=2001 to continue.]"},
		{`{"path":"2001","limit":2001}`, trim(numbered(2000)) +
			"\n\n[Showing lines 1-2000 of 2001. Use offset=2001 to continue.]"},
		{`{"path":"long"}`, "[Line 1 is 58.6KB, exceeds 50.0KB limit. Use bash: sed -n '1p' DIR/long | head -c 51200]"},
		{`{"path":"long","offset":2}`, "b\n"},
		{`{"path":"x y","offset":2}`,
			"[Line 2 is 58.6KB, exceeds 50.0KB limit. Use bash: sed -n '2p' 'DIR/x y' | head -c 51200]"},
		{`{"path":"100","limit":10}`, trim(numbered(10)) + "\n\n[90 more lines in file. Use offset=11 to continue.]"},
		{`{"path":"100","limit":99}`, trim(numbered(99)) + "\n\n[1 more line in file. Use offset=100 to continue.]"},
		{`{"path":"100","limit":100}`, numbered(100)},
		{`{"path":"100","offset":91,"limit":100}`, upTo(91, 100)},
		{`{"path":"100","offset":100}`, "100\n"},
		{`{"path":"100","offset":101}`, "error: offset 101 is beyond the end of the file (100 lines)"},
		{`{"path":"100","offset":0,"limit":1}`, "1\n\n[99 more lines in file. Use offset=2 to continue.]"},
		{`{"path":"100","offset":-5,"limit":1}`, "1\n\n[99 more lines in file. Use offset=2 to continue.]"},
		{`{"path":"100","limit":0}`, "error: limit is 0: it must be at least 1"},
		{`{"path":"100","limit":-1}`, "error: limit is -1: it must be at least 1"},
		{`{"path":"empty"}`, "[The file is empty.]"},
		{`{"path":"empty","offset":2}`, "error: offset 2 is beyond the end of the file (0 lines)"},
		{`{"path":"newline"}`, "\n"},
		{`{"path":"nope"}`, "error: Path not found: DIR/nope"},
		{`{"path":"."}`, "error: DIR is a directory: use ls to list it"},
		{`{"path":""}`, "error: path is empty"},
		{`{"path":"a\u0000b"}`, `error: path "a\x00b" has a NUL character`},
		{`{"file_path":"newline"}`, "\n"},
	} {
		b.want(t, "read", c.in, c.want)
	}
	_, res := b.call(t, "read", `{"path":"2001"}`)
	d := res.Details.(ReadDetails)
	if d.Total != 2001 || d.Lines != 2000 || d.Cut == nil || d.Cut.By != truncate.ByLines || d.Cut.TotalLines != 2001 ||
		len(res.Touched) != 1 {
		t.Errorf("details %+v, cut %+v, touched %q", d, d.Cut, res.Touched)
	}
}

func TestReadEncodings(t *testing.T) {
	b := newFixture(t, FileOptions{},
		"utf16=\xff\xfeh\x00\xe9\x00\n\x00", "utf16be=\xfe\xff\x00h\x00\xe9\x00\n", "latin=caf\xe9\nna\xefve\n",
		"windows=\x93x\x94\n", "bom=\xef\xbb\xbfx\n", "broken=日本語\xff日本語\n", "binary=\x00\x01\x02",
		"elf=\x7fELF\x02\x01\x01\x00\x00", "zip=PK\x03\x04\x00\x00",
	)
	for in, want := range map[string]string{
		"utf16":   "hé\n\n[The file is UTF-16LE and was decoded to UTF-8.]",
		"utf16be": "hé\n\n[The file is UTF-16BE and was decoded to UTF-8.]",
		"latin":   "café\nnaïve\n\n[The file is not UTF-8. It was decoded as Latin-1, which is a guess; edit and write keep that encoding.]",
		"windows": "“x”\n\n[The file is not UTF-8. It was decoded as Windows-1252, which is a guess; edit and write keep that encoding.]",
		"bom":     "x\n",
		"broken":  "日本語\ufffd日本語\n\n[Bytes that are not valid UTF-8 are shown as \ufffd.]",
		"binary":  "error: DIR/binary is a binary file (unknown kind, 3B): read shows text, images, PDF files and notebooks",
		"elf":     "error: DIR/elf is a binary file (ELF executable, 9B): read shows text, images, PDF files and notebooks",
		"zip": "error: DIR/zip is a binary file (ZIP archive or office document, 6B): read shows text, images, PDF " +
			"files and notebooks",
	} {
		b.want(t, "read", fmt.Sprintf(`{"path":%q}`, in), want)
	}
	// A page of text with multi-byte characters across the boundaries of the blocks that are read.
	long := "x" + strings.Repeat("é日😀", 20000) + "\n" + "end\n"
	put(t, b.path("long"), long)
	b.want(t, "read", `{"path":"long","offset":2}`, "end\n")
	utf16 := []byte("\xff\xfe")
	for range 40000 {
		utf16 = append(utf16, 0x3d, 0xd8, 0x00, 0xde) // a surrogate pair
	}
	put(t, b.path("pairs"), string(utf16)+"\n\x00o\x00k\x00")
	b.want(t, "read", `{"path":"pairs","offset":2}`, "ok\n\n[The file is UTF-16LE and was decoded to UTF-8.]")
	// the content is unchanged
	b.want(t, "edit", `{"path":"pairs","edits":[{"oldText":"ok","newText":"OK"}]}`, "Replaced 1 occurrence in pairs.")
	// The decoded page may exceed the limit although its bytes did not.
	put(t, b.path("accents"), strings.Repeat(strings.Repeat("\xe9", 99)+"\n", 500))
	b.want(t, "read", `{"path":"accents"}`, strings.Repeat(strings.Repeat("é", 99)+"\n", 256)+strings.Repeat("é", 99)+
		"\n\n[The file is not UTF-8. It was decoded as Latin-1, which is a guess; edit and write keep that encoding.]\n[Showing lines 1-257 of 500 (50.0KB limit). Use offset=258 "+
		"to continue.]")
}

func TestReadNotebook(t *testing.T) {
	b := newFixture(t, FileOptions{}, `nb.ipynb={"cells":[{"cell_type":"markdown","source":["# Title\n","text"]},
		{"cell_type":"code","source":"print(1)","outputs":[{"output_type":"stream","text":["1\n"]},
		{"output_type":"display_data","data":{"image/png":"AAAA","text/plain":"<Figure>"}},
		{"output_type":"error","ename":"ValueError","evalue":"bad"}]}],"nbformat":4}`,
		`other.json={"cells": 3}`, `grid.json={"cells":[]}`)
	b.want(t, "read", `{"path":"nb.ipynb"}`, "[Notebook of 2 cells; edit changes them with its field "+
		"cells.]\n\n[Cell 1: markdown]\n# Title\ntext\n\n"+
		"[Cell 2: code]\nprint(1)\n[Output: stream]\n1\n[Output: display_data]\n<Figure>\n[image/png, 6B, not "+
		"shown]\n[Output: error]\nValueError: bad\n")
	b.want(t, "read", `{"path":"nb.ipynb","offset":4,"limit":1}`,
		"# Title\n\n[11 more lines in file. Use offset=5 to continue.]")
	b.want(t, "read", `{"path":"other.json"}`, `{"cells": 3}`)
	b.want(t, "read", `{"path":"grid.json"}`, `{"cells":[]}`)
}

func TestReadSpecialFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no FIFO on Windows")
	}
	b := newFixture(t, FileOptions{}, "locked=x")
	if out, err := exec.Command("mkfifo", b.path("fifo")).CombinedOutput(); err != nil {
		t.Skipf("mkfifo: %v %s", err, out)
	}
	b.want(t, "read", `{"path":"fifo"}`, "error: DIR/fifo is not a regular file (a FIFO, socket or device)")
	b.want(t, "edit", `{"path":"fifo","edits":[{"oldText":"a","newText":"b"}]}`,
		"error: DIR/fifo is not a regular file (a FIFO, socket or device)")
	b.want(t, "read", `{"path":"/dev/null"}`, "error: /dev/null is not a regular file (a FIFO, socket or device)")
	b.want(t, "grep", `{"pattern":"x"}`, "locked:1: x")
	if os.Getuid() != 0 {
		if err := os.Chmod(b.path("locked"), 0); err != nil {
			t.Fatal(err)
		}
		b.want(t, "read", `{"path":"locked"}`, "error: Permission denied: DIR/locked")
	}
}

func TestPaths(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	put(t, filepath.Join(home, "h.txt"), "home")
	b := newFixture(t, FileOptions{}, "a b.txt=spaced", "@at=at", "n\u00a0b=kept", "cafe\u0301=nfd", "it’s=curly",
		"Shot 9\u202fAM.png=narrow", "Shot 9\u202fPM.png=narrow", "Shot 9\u202fPM (2).png=narrow", "d’e\u0301tat=both",
		"l'e\u0301te\u0301=apart", "-rf=flag")
	for in, want := range map[string]string{
		"a\u00a0b.txt": "spaced", "a\u3000b.txt": "spaced", "@a b.txt": "spaced", "@@at": "at", "n\u00a0b": "kept",
		"~/h.txt": "home", "file://" + b.path("a%20b.txt"): "spaced", "café": "nfd", "it's": "curly",
		"Shot 9 AM.png": "narrow", "Shot 9 PM.png": "narrow", "Shot 9 PM (2).png": "narrow", "d'état": "both",
		"l'été": "apart", "-rf": "flag", "./a b.txt": "spaced",
		"file://elsewhere/x": `error: "file://elsewhere/x" is not a file URL on this machine`,
		"~nobody/x":          "error: Path not found: DIR/~nobody/x",
	} {
		data, _ := json.Marshal(map[string]string{"path": in})
		b.want(t, "read", string(data), want)
	}
	// The path of a new file keeps plain spaces; only read tries variants.
	b.want(t, "write", "{\"path\":\"new\u00a0file\",\"content\":\"x\"}", "Created new\u00a0file (1 byte).")
	if b.content(t, "new file") != "x" {
		t.Error("not written")
	}
	b.want(t, "edit", `{"path":"it's","edits":[{"oldText":"c","newText":"d"}]}`, "error: Path not found: DIR/it's")
}

func TestEdit(t *testing.T) {
	b := newFixture(t, FileOptions{}, "f=\xef\xbb\xbfone\r\ntwo\nthree\r\n", "latin=caf\xe9 au lait\n", "dir/x=1")
	b.want(t, "edit", `{"path":"f","edits":[{"oldText":"two","newText":"TWO"},{"oldText":"three","newText":"3"}]}`,
		"Replaced 2 occurrences in f.")
	if got := b.content(t, "f"); got != "\xef\xbb\xbfone\r\nTWO\n3\r\n" {
		t.Errorf("f = %q", got)
	}
	b.want(t, "edit", `{"path":"latin","edits":[{"oldText":"café","newText":"thé"}]}`, "Replaced 1 occurrence in latin.")
	if got := b.content(t, "latin"); got != "th\xe9 au lait\n" {
		t.Errorf("latin = %q", got)
	}
	b.want(t, "edit", `{"path":"latin","edits":[{"oldText":"thé","newText":"☃"}]}`,
		"error: latin: the file is Latin-1, which has no '☃' (U+2603)")
	b.want(t, "edit", `{"path":"dir","edits":[{"oldText":"a","newText":"b"}]}`,
		"error: DIR/dir is a directory: use ls to list it")
	b.want(t, "edit", `{"path":"nope","edits":[{"oldText":"a","newText":"b"}]}`, "error: Path not found: DIR/nope")
	b.want(t, "edit", `{"path":"dir/x","edits":[]}`, "error: dir/x: edits is empty: give at least one {oldText, newText}")
	// If one edit fails, the file is unchanged.
	b.want(t, "edit", `{"path":"dir/x","edits":[{"oldText":"1","newText":"2"},{"oldText":"q","newText":""}]}`,
		"error: dir/x: edits[1].oldText was not found. It must match the file exactly, including whitespace and line breaks.")
	if b.content(t, "dir/x") != "1" {
		t.Error("an edit was applied although another failed")
	}
	// The input formats that models send.
	for i, in := range []string{
		`{"path":"dir/x","oldText":"%d","newText":"%d"}`,
		`{"file_path":"dir/x","old_string":"%d","new_string":"%d"}`,
		`{"path":"dir/x","old_str":"%d","new_str":"%d"}`,
		`{"path":"dir/x","edits":{"oldText":"%d","newText":"%d"}}`,
		`{"path":"dir/x","edits":"[{\"oldText\":\"%d\",\"newText\":\"%d\"}]"}`,
		`{"path":"dir/x","edits":[{"old_string":"%d","new_string":"%d","replace_all":true}]}`,
	} {
		b.want(t, "edit", fmt.Sprintf(in, i+1, i+2), "Replaced 1 occurrence in dir/x.")
	}
	_, res := b.call(t, "edit", `{"path":"f","edits":[{"oldText":"TWO","newText":"2\n2.5"}]}`)
	d := res.Details.(ChangeDetails)
	want := "--- a/f\n+++ b/f\n@@ -1,3 +1,4 @@\n one\r\n-TWO\n+2\n+2.5\n 3\r\n"
	if d.Diff != want || d.FirstChangedLine != 2 || d.Added != 2 || d.Removed != 1 || d.Path != b.path("f") {
		t.Errorf("details %+v, want diff %q", d, want)
	}
	put(t, b.path("a b"), "x")
	_, other := b.call(t, "write", `{"path":"a b","content":"y"}`)
	// as git does for patch
	if got := other.Details.(ChangeDetails).Diff; !strings.HasPrefix(got, "--- a/a b\t\n+++ b/a b\t\n") {
		t.Errorf("diff of a name with a blank: %q", got)
	}
}

// TestEditFailsForPeople: the line for people says why an edit failed, without what only the model needs.
func TestEditFailsForPeople(t *testing.T) {
	b := newFixture(t, FileOptions{})
	put(t, b.path("a"), "one\none\ntwo\n")
	people := func(name, input string) string {
		call := llm.ToolCall{ID: "1", Name: name, Input: []byte(input)}
		return tool.Call(t.Context(), b.tools, call, tool.AllowAll, nil).People
	}
	for input, want := range map[string]string{
		`{"path":"a"}`: "not changed: no text to replace is named",
		`{"path":"a","edits":[{"oldText":"","newText":"x"}]}`:                                        "not changed: the text to replace is empty",
		`{"path":"a","edits":[{"oldText":"two","newText":"two"}]}`:                                   "not changed: the new text is the same as the old",
		`{"path":"a","edits":[{"oldText":"three","newText":"x"}]}`:                                   "not changed: the text to replace was not found",
		`{"path":"a","edits":[{"oldText":"one","newText":"x"}]}`:                                     "not changed: the text to replace occurs 2 times",
		`{"path":"a","edits":[{"oldText":"one\ntwo","newText":"x"},{"oldText":"two","newText":""}]}`: "not changed: two of the edits overlap",
		`{"path":"none","edits":[{"oldText":"one","newText":"x"}]}`:                                  "failed: it does not exist",
	} {
		if res := people("edit", input); res != want {
			t.Errorf("%s: %q, want %q", input, res, want)
		}
	}
	if res := people("read", `{"path":"none"}`); res != "failed: it does not exist" {
		t.Errorf("read: %q", res)
	}
}

func TestStale(t *testing.T) {
	b := newFixture(t, FileOptions{}, "f=one\n", "g=one\n")
	b.call(t, "read", `{"path":"f"}`)
	put(t, b.path("f"), "other\n")
	stale := "error: DIR/f has changed since it was read: read it again, then make the change"
	b.want(t, "edit", `{"path":"f","edits":[{"oldText":"other","newText":"x"}]}`, stale)
	b.want(t, "write", `{"path":"f","content":"x"}`, stale)
	// A forked conversation has read nothing, so no file has changed since it was read.
	fork := editTool(b.ws, b.state.Copy(), b.opts)
	if _, err := fork.Run(t.Context(),
		tool.Input{JSON: []byte(`{"path":"f","edits":[{"oldText":"other","newText":"forked"}]}`)}); err != nil {
		t.Errorf("edit in a fork: %v", err)
	}
	b.call(t, "read", `{"path":"f","limit":1}`)
	b.want(t, "edit", `{"path":"f","edits":[{"oldText":"forked","newText":"x"}]}`, "Replaced 1 occurrence in f.")
	b.want(t, "edit", `{"path":"f","edits":[{"oldText":"x","newText":"y"}]}`, "Replaced 1 occurrence in f.")
	b.want(t, "write", `{"path":"f","content":"z"}`, "Wrote f (1 byte).")
	// Writing the same bytes again is not a change, and a file that was never read may be edited.
	put(t, b.path("f"), "z")
	b.want(t, "write", `{"path":"f","content":"zz"}`, "Wrote f (2 bytes).")
	b.want(t, "edit", `{"path":"g","edits":[{"oldText":"one","newText":"two"}]}`, "Replaced 1 occurrence in g.")
	// Through a link it is the same file.
	if err := os.Symlink("g", b.path("link")); err != nil {
		t.Skip("no links: ", err)
	}
	b.call(t, "read", `{"path":"link"}`)
	put(t, b.path("g"), "three\n")
	b.want(t, "edit", `{"path":"g","edits":[{"oldText":"three","newText":"x"}]}`,
		"error: DIR/g has changed since it was read: read it again, then make the change")
}

// TestChangeSays: what a change replaces, and whether the file was read, is known before the user decides.
func TestChangeSays(t *testing.T) {
	b := newFixture(t, FileOptions{}, "bin=\x00"+strings.Repeat("\xff", 2999), "long="+strings.Repeat("a line\n", 300),
		"most=first\n"+strings.Repeat("old\n", 19),
		"empty=", "read=x\ny\n")
	b.call(t, "read", `{"path":"read"}`)
	put(t, b.path("dot.gif"), "GIF89a\x01\x00\x01\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x01\x00\x00;")
	b.call(t, "read", `{"path":"dot.gif"}`)
	for _, c := range []struct{ tool, input, want string }{
		{"write", `{"path":"dot.gif","content":"one\n"}`, "+1 -0 replaces a binary file, 28 B"},
		{"write", `{"path":"bin","content":"one\n"}`, "+1 -0 replaces a binary file, 2.9 KB, unread"},
		{"write", `{"path":"long","content":"one\n"}`, "+1 -300 replaces 300 lines, unread"},
		{"write", `{"path":"most","content":"first\n` + strings.Repeat("new\\n", 9) + `"}`,
			"+9 -19 replaces 19 of 20 lines, unread"},
		{"write", `{"path":"empty","content":"one\n"}`, "+1 -0, unread"},
		{"write", `{"path":"new","content":"one\n"}`, "+1 -0, created"},
		{"write", `{"path":"read","content":"x\nz\n"}`, "+1 -1"},
		{"edit", `{"path":"read","oldText":"y","newText":"z"}`, "+1 -1"},
	} {
		tl, _ := b.tools.Find(c.tool)
		all, err := tl.Changes(t.Context(), tl.Decode([]byte(c.input)))
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("+%d -%d", all[0].Added, all[0].Removed)
		if r := all[0].Replaced; r != "" {
			got += " replaces " + r
		}
		if all[0].Unread {
			got += ", unread"
		}
		if all[0].Created {
			got += ", created"
		}
		if got != c.want {
			t.Errorf("%s %s: %s, want %s", c.tool, c.input, got, c.want)
		}
	}
}

func TestWrite(t *testing.T) {
	b := newFixture(t, FileOptions{}, "old=x")
	b.want(t, "write", `{"path":"n/d/é.txt","content":"héllo"}`, "Created n/d/é.txt (6 bytes).")
	if b.content(t, "n/d/é.txt") != "héllo" {
		t.Error("not written")
	}
	b.want(t, "write", `{"path":"old/x","content":""}`, "error: Not a directory: DIR/old/x")
	b.want(t, "write", `{"path":"n","content":""}`, "error: DIR/n is a directory: use ls to list it")
	if runtime.GOOS == "windows" {
		return
	}
	if err := os.Chmod(b.path("old"), 0o751); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("old", b.path("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(b.path("n/d/é.txt"), b.path("hard")); err != nil {
		t.Fatal(err)
	}
	b.want(t, "write", `{"path":"link","content":"new"}`, "Wrote link (3 bytes).")
	b.want(t, "write", `{"path":"hard","content":"both"}`, "Wrote hard (4 bytes).")
	info, err := os.Lstat(b.path("link"))
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v %v", info, err)
	}
	if info, err := os.Stat(b.path("old")); err != nil || info.Mode().Perm() != 0o751 || b.content(t, "old") != "new" {
		t.Errorf("old: %v %v %q", info.Mode(), err, b.content(t, "old"))
	}
	if b.content(t, "n/d/é.txt") != "both" {
		t.Error("the other hard link has the old content")
	}
}

// Concurrent edits of one file by several names: none is lost.
func TestConcurrentEdits(t *testing.T) {
	const n = 40
	b := newFixture(t, FileOptions{}, "f="+numbered(n), "dir/x=")
	if err := os.Symlink("../f", b.path("dir/link")); err != nil {
		t.Skip("no links: ", err)
	}
	var wg sync.WaitGroup
	for i := 2; i <= n; i++ { // every line but the first has a break on both sides
		wg.Go(func() {
			name := []string{"f", "dir/link", "./dir/../f"}[i%3]
			in := fmt.Sprintf(`{"path":%q,"edits":[{"oldText":"\n%d\n","newText":"\nline %d\n"}]}`, name, i, i)
			if got, res := b.call(t, "edit", in); res.IsError {
				t.Errorf("%s: %s", in, got)
			}
		})
	}
	wg.Wait()
	got := b.content(t, "f")
	for i := 2; i <= n; i++ {
		if !strings.Contains(got, fmt.Sprintf("\nline %d\n", i)) {
			t.Errorf("edit %d is lost", i)
		}
	}
}

// Calls of one answer on one file run in the answer's order, whatever name they use: each edit here needs the one
// before it.
func TestEditsInOrder(t *testing.T) {
	b := newFixture(t, FileOptions{}, "f=step 0\n", "dir/x=")
	if err := os.Symlink("../f", b.path("dir/link")); err != nil {
		t.Skip("no links: ", err)
	}
	var calls []llm.ToolCall
	for i := range 30 {
		name := []string{"f", "dir/link", "./dir/../f"}[i%3]
		calls = append(calls, llm.ToolCall{ID: fmt.Sprint(i), Name: "edit",
			Input: fmt.Appendf(nil, `{"path":%q,"edits":[{"oldText":"step %d\n","newText":"step %d\n"}]}`, name, i, i+1)})
	}
	calls = append(calls, llm.ToolCall{ID: "w", Name: "write", Input: []byte(`{"path":"f","content":"written"}`)},
		llm.ToolCall{ID: "e", Name: "edit", Input: []byte(`{"path":"dir/link","oldText":"written","newText":"last"}`)})
	for i, r := range tool.CallAll(t.Context(), b.tools, calls, tool.AllowAll, tool.Listener{}) {
		if r.IsError {
			t.Errorf("call %d: %v", i, r.Parts)
		}
	}
	if got := b.content(t, "f"); got != "last" {
		t.Errorf("f = %q", got)
	}

	// A read sees the changes before it and none after it.
	calls = nil
	for i := range 20 {
		calls = append(calls, llm.ToolCall{ID: fmt.Sprint("w", i), Name: "write",
			Input: fmt.Appendf(nil, `{"path":"f","content":"text %d"}`, i)},
			llm.ToolCall{ID: fmt.Sprint("r", i), Name: "read", Input: []byte(`{"path":"dir/link"}`)})
	}
	for i, r := range tool.CallAll(t.Context(), b.tools, calls, tool.AllowAll, tool.Listener{}) {
		if want := fmt.Sprint("text ", i/2); i%2 == 1 && (r.IsError || r.Parts[0].Text != want) {
			t.Errorf("call %d: %v, want %s", i, r.Parts, want)
		}
	}
}

// TestSearchTouches: a path given to grep or find counts as touched.
func TestSearchTouches(t *testing.T) {
	b := newFixture(t, FileOptions{}, "src/a.go=package a\n")
	for input, want := range map[string]string{`{"pattern":"nowhere","path":"src"}`: b.path("src"),
		`{"pattern":"a*"}`: ""} {
		for _, name := range []string{"grep", "find"} {
			r := tool.Call(t.Context(), b.tools, llm.ToolCall{Name: name, Input: []byte(input)}, tool.AllowAll, nil)
			if got := strings.Join(r.Touched, " "); got != want || r.IsError {
				t.Errorf("%s %s touched %q, want %q: %v", name, input, got, want, r.Parts)
			}
		}
	}
}

// Bad input leads to one clear sentence, through the whole pipeline.
func TestBadInput(t *testing.T) {
	b := newFixture(t, FileOptions{}, "f=text\n")
	for _, c := range []struct{ name, in, want string }{
		{"read", `{}`, "path"},
		{"read", `{"path":7}`, ""}, // coerced to "7"
		{"read", `{"path":["f"]}`, "path"},
		{"read", `{"path":"f","offset":"x"}`, "offset"},
		{"read", `"f"`, "object"},
		{"read", `{"path":`, ""},
		{"edit", `{"path":"f"}`, "edits"},
		{"edit", `{"path":"f","edits":"not json"}`, "edits"},
		{"edit", `{"path":"f","edits":[{"oldText":"a"}]}`, "newText"},
		{"edit", `{"path":"f","edits":null}`, "edits"},
		{"write", `{"path":"f"}`, "content"},
		{"write", `{"path":"f","content":{"a":1}}`, "content"},
		{"grep", `{"path":"."}`, "pattern"},
		{"grep", `{"pattern":"(","path":"."}`, "character 1"},
		{"grep", `{"pattern":"a","limit":"many"}`, "limit"},
		{"find", `{}`, "pattern"},
		{"ls", `{"path":{"a":1}}`, "path"},
		{"nope", `{}`, "Tool nope not found"},
		{"grep", `{"pattern":"a","limit":99999999999999999999}`, "limit: want an integer, got 99999999999999999999"},
		{"read", `{"path":"f","offset":1e18}`, "offset 1000000000000000000 is beyond the end of the file (1 line)"},
		{"bash", `{"command":"true","timeout":1e400}`, "timeout: 1e400 is out of range"},
		{"find", `{"pattern":"../*"}`,
			`pattern "../*" leads out of the directory: give that directory as path, and a pattern within it`},
	} {
		res := tool.Call(t.Context(), b.tools, llm.ToolCall{ID: "1", Name: c.name, Input: []byte(c.in)}, tool.AllowAll, nil)
		if !res.IsError || len(res.Parts) != 1 || !strings.Contains(res.Parts[0].Text, c.want) ||
			strings.Contains(res.Parts[0].Text, "failed:") {
			t.Errorf("%s %s: %+v, want an error with %q", c.name, c.in, res, c.want)
		}
	}
	for _, c := range []struct{ name, in, want string }{
		{"read", `{"path":"f","offset":"1"}`, "text\n"},
		{"read", `{"path":"f","offset":null,"limit":null}`, "text\n"},
		{"read", `{"file_path":"f"}`, "text\n"},
		{"Read", `{"filePath":"f","file_path":null}`, "text\n"},
		{"Read", `{"file_path":"f","path":null}`, "text\n"},
		{"Grep", `{"pattern":"text","output_mode":"content"}`, "f:1: text"},
		{"Grep", `{"regex":"TEXT","-i":true,"include":"f","-C":0,"head_limit":1,"directory":"."}`, "f:1: text"},
		{"grep", `{"query":"text","ignore_case":false,"output_mode":"files_with_matches"}`, "f"},
		{"Glob", `{"glob":"f","dir":"."}`, "f"},
		{"find", `{"pattern":"f","directory":"."}`, "f"},
		{"LS", `{"directory":"."}`, "f"},
		{"ls", `{"dir":"."}`, "f"},
		{"ls", `{"path":null}`, "f"},
		{"grep", `{"pattern":"TEXT","ignoreCase":"true","path":null}`, "f:1: text"},
	} {
		res := tool.Call(t.Context(), b.tools, llm.ToolCall{ID: "1", Name: c.name, Input: []byte(c.in)}, tool.AllowAll, nil)
		if res.IsError || len(res.Parts) != 1 || res.Parts[0].Text != c.want {
			t.Errorf("%s %s: %+v, want %q", c.name, c.in, res, c.want)
		}
	}
	if b.content(t, "f") != "text\n" {
		t.Error("bad input changed the file")
	}
}

// The sets contain the tools that their names promise.
func TestSets(t *testing.T) {
	b := newFixture(t, FileOptions{})
	all := Tools(b.ws, Options{Jobs: new(Jobs)})
	every := strings.Join(all.Names(), " ")
	for spec, want := range map[string]string{Names(): every, All: every, ReadOnly: "read grep find ls"} {
		set, problems := tool.Select(all, spec, "")
		if got := strings.Join(set.Names(), " "); got != want || len(problems) > 0 {
			t.Errorf("%s: %s, %v", spec, got, problems)
		}
		for _, tl := range set {
			if spec == ReadOnly && !tl.Effect.ReadOnly() {
				t.Errorf("%s is in the read-only set, but is not marked read-only", tl.Name)
			}
		}
	}
}

// Other agents' names for the input of write and edit.
func TestForeignFields(t *testing.T) {
	b := newFixture(t, FileOptions{})
	for i, in := range []string{
		`{"file_path":"f","contents":"%d"}`, `{"filePath":"f","file_text":"%d"}`, `{"path":"f","text":"%d"}`,
	} {
		if _, res := b.call(t, "write", fmt.Sprintf(in, i)); res.IsError || b.content(t, "f") != fmt.Sprint(i) {
			t.Errorf("write %s: %q", in, b.content(t, "f"))
		}
	}
	for i, in := range []string{
		`{"filePath":"f","oldString":"%d","newString":"%d"}`,
		`{"path":"f","old_text":"%d","new_text":"%d","replace_all":true}`,
		`{"path":"f","edits":[{"old_str":"%d","new_str":"%d"}]}`,
	} {
		if got, res := b.call(t, "edit", fmt.Sprintf(in, i+2, i+3)); res.IsError || b.content(t, "f") != fmt.Sprint(i+3) {
			t.Errorf("edit %s: %s", in, got)
		}
	}
}

// Each file has its own queue, first come, first served.
func TestLocksOrder(t *testing.T) {
	l := &locks{byPath: map[string]*lock{}}
	first := l.acquire("f")
	l.acquire("other")() // does not wait
	var order []int
	var wg sync.WaitGroup
	queued := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.byPath["f"].waiters
	}
	for i := range 20 {
		wg.Go(func() {
			release := l.acquire("f")
			order = append(order, i)
			release()
		})
		for queued() < i+2 {
			runtime.Gosched()
		}
	}
	first()
	wg.Wait()
	for i, got := range order {
		if i != got {
			t.Fatalf("order %v", order)
		}
	}
	if len(l.byPath) != 0 {
		t.Errorf("%d queues remain", len(l.byPath))
	}
}

// Applying the diff of any edit or write with git apply (or patch) produces the same file.
func TestDiffApplies(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed, so the diff is not compared with it")
	}
	patch, _ := exec.LookPath("patch")
	line := rapid.StringOfN(rapid.RuneFrom([]rune("ab é-+@ \\\t")), 0, 6, -1)
	lines := func(t *rapid.T, label string) string {
		var b strings.Builder
		for range rapid.IntRange(0, 8).Draw(t, label) {
			b.WriteString(line.Draw(t, "line"))
			b.WriteString(rapid.SampledFrom([]string{"\n", "\n", "\r\n"}).Draw(t, "ending"))
		}
		return b.String() + line.Draw(t, "last")
	}
	b := newFixture(t, FileOptions{})
	names := []string{"f", "a b", "dir/c", `q"uo\te`, "é"}
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		if n++; n > 40 {
			return // each case starts two processes: enough for one run
		}
		name := rapid.SampledFrom(names).Draw(rt, "name")
		old, now := lines(rt, "old"), lines(rt, "new")
		put(t, b.path(name), old)
		in, _ := json.Marshal(map[string]string{"path": name, "content": now})
		tl, what := "write", "write"
		if i := strings.Index(old, "a"); i >= 0 && strings.Count(old, "a") == 1 && rapid.Bool().Draw(rt, "edit") {
			in, _ = json.Marshal(map[string]any{"path": name, "oldText": "a", "newText": now + "!"})
			tl, what = "edit", "edit"
		}
		b.state.recordHash(b.path(name), hashOf(old))
		_, res := b.call(t, tl, string(in))
		if res.IsError {
			rt.Fatalf("%s: %v", what, res.Parts)
		}
		diff := res.Details.(ChangeDetails).Diff
		want := b.content(t, name)
		if diff == "" {
			if want != old {
				rt.Fatalf("%q became %q without a diff", old, want)
			}
			return
		}
		try := func(cmd *exec.Cmd) {
			put(t, b.path(name), old)
			cmd.Dir, cmd.Stdin = b.dir, strings.NewReader(diff)
			if out, err := cmd.CombinedOutput(); err != nil {
				rt.Fatalf("%v: %v %s\n%s", cmd.Args, err, out, diff)
			}
			if got := b.content(t, name); got != want {
				rt.Fatalf("%v of\n%s\nmakes %q, want %q", cmd.Args, diff, got, want)
			}
		}
		try(exec.Command(git, "apply", "--whitespace=nowarn", "-"))
		if patch != "" && name != `q"uo\te` && name != "a b" {
			try(exec.Command(patch, "-p1", "-s", "--binary", "--no-backup-if-mismatch"))
		}
	})
}

// The file that is opened is the one that the gate approved.
func TestApprovedFile(t *testing.T) {
	b := newFixture(t, FileOptions{}, "ok=fine\n", "secret=hidden\n", "d/x=fine\n", "s/x=hidden\n")
	if err := os.Symlink("ok", b.path("link")); err != nil {
		t.Skip("no links: ", err)
	}
	if err := os.Symlink("d", b.path("dlink")); err != nil {
		t.Fatal(err)
	}
	retarget := func(link, to string) {
		os.Remove(b.path(link))
		if err := os.Symlink(to, b.path(link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ tool, input, link, to string }{
		{"read", `{"path":"link"}`, "link", "secret"},
		{"edit", `{"path":"link","edits":[{"oldText":"e","newText":"X"}]}`, "link", "secret"},
		{"write", `{"path":"link","content":"X"}`, "link", "secret"},
		{"grep", `{"pattern":"hidden","path":"dlink"}`, "dlink", "s"},
		{"grep", `{"pattern":"hidden","path":"link"}`, "link", "secret"},
		{"find", `{"pattern":"*","path":"dlink"}`, "dlink", "s"},
		{"ls", `{"path":"dlink"}`, "dlink", "s"},
	} {
		retarget("link", "ok")
		retarget("dlink", "d")
		tl, _ := b.tools.Find(c.tool)
		subjects, err := tl.Subjects(t.Context(), []byte(c.input))
		if err != nil || len(subjects) != 2 {
			t.Errorf("%s: subjects %v, %v", c.tool, subjects, err)
		}
		retarget(c.link, c.to)
		res, err := tl.Run(context.Background(), tool.Input{JSON: []byte(c.input), Subjects: subjects})
		if err == nil || !strings.Contains(err.Error(), "lead elsewhere") {
			t.Errorf("%s %s after the link changed: %v, %v", c.tool, c.input, res, err)
		}
	}
	if b.content(t, "secret") != "hidden\n" {
		t.Error("the file behind the changed link was written")
	}
	tl, _ := b.tools.Find("write")
	got, err := tl.Subjects(t.Context(), []byte(`{"path":"new","content":""}`))
	if want := []permission.Subject{{Kind: "Edit", Text: b.path("new")}}; err != nil ||
		fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("subjects of a new file: %v, %v", got, err)
	}
}

// swapWS replaces a file by a link right before it is opened.
type swapWS struct {
	*workspace.Local
	t *testing.T
}

func (s swapWS) Open(ctx context.Context, path string) (workspace.File, error) {
	os.Remove(s.Path("ok"))
	if err := os.Symlink("secret", s.Path("ok")); err != nil {
		s.t.Skip("no links: ", err)
	}
	return s.Local.Open(ctx, path)
}

// A file is checked again by its descriptor after it is opened.
func TestSwappedBeforeOpen(t *testing.T) {
	for _, c := range []struct{ tool, input string }{
		{"read", `{"path":"ok"}`}, {"grep", `{"pattern":"hidden","path":"ok"}`},
		{"edit", `{"path":"ok","edits":[{"oldText":"hidden","newText":"X"}]}`}, {"write", `{"path":"ok","content":"X"}`},
	} {
		b := newFixture(t, FileOptions{}, "ok=fine\n", "secret=hidden\n")
		tl, _ := Tools(swapWS{b.ws, t}, Options{}).Find(c.tool)
		subjects, err := tl.Subjects(t.Context(), []byte(c.input))
		if err != nil {
			t.Fatal(err)
		}
		res, err := tl.Run(t.Context(), tool.Input{JSON: []byte(c.input), Subjects: subjects})
		if err == nil || !strings.Contains(err.Error(), "lead elsewhere") || b.content(t, "secret") != "hidden\n" {
			t.Errorf("%s: %v, %v", c.tool, res, err)
		}
	}
}

// A gigabyte is read in little memory.
func TestReadHuge(t *testing.T) {
	if testing.Short() {
		t.Skip("too large for -short")
	}
	b := newFixture(t, FileOptions{})
	f, err := os.Create(b.path("big"))
	if err != nil {
		t.Fatal(err)
	}
	// Sparse: the zeros in between make one long line. They begin after the part that decides whether a file is text.
	head := numbered(20000)
	if _, err := f.WriteString(head); err != nil {
		t.Fatal(err)
	}
	const size = 256 << 20
	if _, err := f.WriteAt([]byte("\nlast\n"), size-6); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	allocated := allocated(func() {
		b.want(t, "read", `{"path":"big","offset":20002}`, "last\n")
		b.want(t, "read", `{"path":"big","limit":2}`, "1\n2\n\n[20000 more lines in file. Use offset=3 to continue.]")
		got, _ := b.call(t, "read", `{"path":"big","offset":20001}`)
		if want := "[Line 20001 is 255.9MB, exceeds 50.0KB limit."; !strings.HasPrefix(got, want) {
			t.Errorf("%.100q, want %q", got, want)
		}
	})
	if allocated > 64<<20 {
		t.Errorf("%d MiB of memory", allocated>>20)
	}
}

// allocated returns all memory that f allocates on the heap: more than its peak.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func hashOf(s string) uint64 { return hashBytes([]byte(s)) }

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{"/a/b-c.go": "/a/b-c.go", "it's": `'it'\''s'`, "a b": "'a b'",
		"$(x)": "'$(x)'"} {
		if got := quote(in); got != want {
			t.Errorf("quote(%q) = %s, want %s", in, got, want)
		}
	}
}
