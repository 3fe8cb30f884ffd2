package coding

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/charset"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/truncate"
)

// BenchmarkVersus compares grep, find, ls and read with ripgrep, fd, ls and sed, started as an agent would start
// them, on the Go source tree and on 100,000 small files. It first checks that both find the same.
//
//	go test ./run/tool/coding -run '^$' -bench Versus -benchtime 10x
//
// Times are medians in ms; "x" is ours over theirs.
func BenchmarkVersus(b *testing.B) {
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		b.Skip("no Go source tree: ", err)
	}
	src := filepath.Join(strings.TrimSpace(string(root)), "src")
	many := manyFiles(b)
	patterns := []struct {
		name, pattern string
		fold          bool
	}{
		{"literal", `ErrUnexpectedEOF`, false},
		{"regexp", `func \(\w+ \*\w+\) Write\(`, false},
		{"fold", `errunexpectedeof`, true},
		{"alternation", `ErrUnexpectedEOF|ErrShortBuffer|ErrNoProgress|ErrClosedPipe`, false},
		{"no-match", `zzyzxNowhere`, false},
		{"no-literal", `[A-Z]\w+[0-9]{3}\b`, false},
	}
	for _, t := range []struct{ name, dir string }{
		{"go", src}, {"net", filepath.Join(src, "net")}, {"100k", many},
	} {
		for _, p := range patterns {
			in, _ := json.Marshal(map[string]any{"pattern": p.pattern, "ignoreCase": p.fold, "limit": 1 << 30})
			args := []string{"--no-config", "--no-heading", "--with-filename", "--line-number", "--color=never", "--hidden",
				"--no-require-git", "--no-ignore-global", "-g", "!.git"}
			if p.fold {
				args = append(args, "-i")
			}
			for _, s := range secretNames() {
				args = append(args, "-g", "!"+s)
			}
			args = append(args, "-e", p.pattern)
			b.Run(t.name+"/grep-"+p.name, func(b *testing.B) {
				versus(b, t.dir, "grep", string(in), map[string][]string{
					"rg-sorted": append([]string{"rg", "--sort", "path"}, args...),
					"rg":        append([]string{"rg"}, args...),
				})
			})
		}
		b.Run(t.name+"/find", func(b *testing.B) {
			versus(b, t.dir, "find", `{"pattern":"*_test.go","limit":1000000000}`, map[string][]string{
				"fd": {"fdfind", "--glob", "--hidden", "--no-ignore-parent", "--exclude", ".git", "--case-sensitive", "--color",
					"never", "*_test.go"},
			})
		})
	}
	flat := b.TempDir()
	for i := range 50000 {
		put(b, filepath.Join(flat, fmt.Sprintf("entry%05d", i*7919%50000)), "")
	}
	b.Run("ls-50000", func(b *testing.B) {
		versus(b, flat, "ls", `{"limit":1000000000}`, map[string][]string{"ls": {"ls", "-1Ap"}})
	})
	big := b.TempDir()
	line := strings.Repeat("0123456789abcdef", 4)[:63] + "\n"
	f, err := os.Create(filepath.Join(big, "big"))
	if err != nil {
		b.Fatal(err)
	}
	for range 1 << 30 / (1 << 20) {
		if _, err := f.WriteString(strings.Repeat(line, 1<<14)); err != nil {
			b.Fatal(err)
		}
	}
	f.Close()
	b.Run("read-deep", func(b *testing.B) {
		versus(b, big, "read", `{"path":"big","offset":16000001,"limit":100}`, map[string][]string{
			"sed": {"sed", "-n", "16000001,16000100p", "big"}, // reads to the end, because the total is needed
		})
	})
}

// secretNames are the names that grep and find always omit.
func secretNames() []string {
	return slices.DeleteFunc(permission.Secrets(), func(s string) bool { return strings.Contains(s, "/") })
}

// manyFiles makes a tree of 100,000 small files of program text.
func manyFiles(b *testing.B) string {
	dir := b.TempDir()
	rnd := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("func return err if nil for range string int byte Reader Writer buffer count x y z io. " +
		"fmt. Errorf( ) { } = := + Value128 name path")
	for i := range 100_000 {
		var t strings.Builder
		for range 10 + rnd.IntN(20) {
			for range 3 + rnd.IntN(8) {
				t.WriteString(words[rnd.IntN(len(words))])
				t.WriteByte(' ')
			}
			t.WriteByte('\n')
		}
		if i%1000 == 0 {
			t.WriteString("func (b *Buf) Write(p []byte) { return io.ErrUnexpectedEOF }\n")
		}
		ext := ".go"
		if i%10 == 0 {
			ext = "_test.go"
		}
		put(b, filepath.Join(dir, fmt.Sprintf("d%02d/e%02d/f%05d%s", i%40, i/40%50, i, ext)), t.String())
	}
	put(b, filepath.Join(dir, ".gitignore"), "*_generated.go\n/d39/\n")
	if err := os.Mkdir(filepath.Join(dir, ".git"), 0o777); err != nil { // fd honours ignore files only in repositories
		b.Fatal(err)
	}
	return dir
}

func versus(b *testing.B, dir, name, input string, others map[string][]string) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		b.Fatal(err)
	}
	ws, err := workspace.NewLocal(dir)
	if err != nil {
		b.Fatal(err)
	}
	set := Tools(ws, Options{Files: FileOptions{limits: truncate.Limits{Lines: 1 << 30, Bytes: 1 << 30}}})
	tl, _ := set.Find(name)
	ours := func() string {
		res, err := tl.Run(b.Context(), tool.Input{JSON: []byte(input)})
		if err != nil {
			b.Fatal(err)
		}
		return res.Parts[0].Text
	}
	theirs := func(args []string) string {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if exit, ok := err.(*exec.ExitError); err != nil && (!ok || exit.ExitCode() != 1) {
			b.Fatal(err)
		}
		return string(out)
	}
	times := map[string][]float64{}
	for who, args := range others {
		if _, err := exec.LookPath(args[0]); err != nil {
			b.Skipf("%s is not installed", args[0])
		}
		if got, want := lineSet(ours()), lineSet(theirs(args)); !slices.Equal(got, want) {
			b.Fatalf("%s: %d lines, %s: %d lines; first difference: %s", name, len(got), who, len(want), difference(got, want))
		}
	}
	for b.Loop() {
		start := time.Now()
		ours()
		times["ours"] = append(times["ours"], time.Since(start).Seconds()*1000)
		for who, args := range others {
			start := time.Now()
			theirs(args)
			times[who] = append(times[who], time.Since(start).Seconds()*1000)
		}
	}
	b.ReportMetric(0, "ns/op")
	mine := median(times["ours"])
	for who, t := range times {
		b.ReportMetric(median(t), who+"-ms")
		if who != "ours" {
			b.ReportMetric(mine/median(t), "x-"+who)
		}
	}
}

func median(t []float64) float64 {
	slices.Sort(t)
	return t[len(t)/2]
}

// lineSet normalizes the output of the programs: "a:1: x" and "a:1:x", with or without "./", without notices and the
// text for an empty result.
func lineSet(out string) []string {
	out, _, _ = strings.Cut(out, "\n\n[")
	if out == "No matches found" {
		out = ""
	}
	var set []string
	for l := range strings.Lines(out) {
		l = strings.TrimPrefix(strings.TrimRight(l, "\r\n"), "./")
		if parts := strings.SplitN(l, ":", 3); len(parts) == 3 {
			text := parts[2]
			if !utf8.ValidString(text) {
				text = valid(text, charset.Guess([]byte(text)))
			}
			text, _ = truncate.Line(text, maxLine-10) // ours has one more blank
			l = parts[0] + ":" + parts[1] + ":" + strings.TrimSpace(strings.ReplaceAll(text, "… [truncated]", ""))
			l = l[:min(len(l), 400)]
		}
		set = append(set, l)
	}
	slices.Sort(set)
	return set
}

func difference(a, b []string) string {
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return fmt.Sprintf("only theirs: %q", b[i])
		case i >= len(b):
			return fmt.Sprintf("only ours: %q", a[i])
		case a[i] != b[i]:
			return fmt.Sprintf("%q and %q", a[i], b[i])
		}
	}
	return ""
}
