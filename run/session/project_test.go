package session

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/knack-agent/knack/run/llm"
)

var update = flag.Bool("update", false, "rewrite the golden parts")

// TestProject reads documents: entries, one per line, and the model's view of them. A line `move N` moves the
// position to entry N.
func TestProject(t *testing.T) {
	paths, err := filepath.Glob("testdata/project/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatal("no documents", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			l := New(Header{ID: "s"})
			for _, line := range strings.Split(strings.TrimSpace(string(ar.Files[0].Data)), "\n") {
				var n int
				if _, err := fmt.Sscanf(line, "move %d", &n); err == nil {
					if err := l.Move(n); err != nil {
						t.Fatal(err)
					}
					continue
				}
				var e Entry
				if err := json.Unmarshal([]byte(line), &e); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				if _, err := l.Append(e); err != nil {
					t.Fatal(err)
				}
			}
			got := show(l.Project())
			if again := show(refolded(l).Project()); again != got {
				t.Errorf("replayed from the start the view differs:\n%s", again)
			}
			if *update {
				ar.Files[1].Data = []byte(got)
				if err := os.WriteFile(path, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want := string(ar.Files[1].Data); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// refolded returns the log as a program that reads the file sees it.
func refolded(l *Log) *Log {
	m := New(l.Header())
	for _, e := range l.Entries() {
		m.replay(e, 0, 0)
	}
	m.leaf = l.leaf
	m.rebuild()
	return m
}

func show(ms []llm.Message) string {
	var b bytes.Buffer
	for _, m := range ms {
		fmt.Fprintf(&b, "%s\n", m.Role)
		for _, p := range m.Parts {
			switch {
			case p.Call != nil:
				fmt.Fprintf(&b, "  call %s %s %s\n", p.Call.ID, p.Call.Name, p.Call.Input)
			case p.Result != nil:
				mark := ""
				if p.Result.IsError {
					mark = " error"
				}
				fmt.Fprintf(&b, "  result %s%s: %s\n", p.Result.ID, mark, p.Result.Parts[0].Text)
			default:
				fmt.Fprintf(&b, "  text: %s\n", strings.ReplaceAll(p.Text, "\n", "\n        "))
			}
		}
	}
	return b.String()
}

// TestProjectionIsImmutable: a projection does not change, whatever happens to the log later.
func TestProjectionIsImmutable(t *testing.T) {
	l := New(Header{ID: "s"})
	mustAppend(t, l, userText("one"),
		Entry{Type: TypeActivation, Activation: &Activation{Skill: "pdf", Hash: "1", Prompt: "TEXT", Tokens: 5}})
	var all [][]llm.Message
	var want []string
	take := func() {
		ms := l.Project()
		all, want = append(all, ms), append(want, show(ms))
	}
	take()
	mustAppend(t, l, userText("two")) // no answer in between, so the texts form one message
	take()
	mustAppend(t, l, Entry{Type: TypeAnswer, Answer: &Answer{Message: llm.Message{Role: llm.Assistant,
		Parts: []llm.Part{llm.Text("a")}}}}, userText("three"))
	take()
	mustAppend(t, l, Entry{Type: TypeRelease, Release: &Release{Entry: 2, Skill: "pdf", Tokens: 5}}, userText("four"))
	take()
	if err := l.Move(1); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, userText("another"))
	take()
	for i := range all {
		if got := show(all[i]); got != want[i] {
			t.Errorf("projection %d was\n%s\nand is now\n%s", i, want[i], got)
		}
	}
}
