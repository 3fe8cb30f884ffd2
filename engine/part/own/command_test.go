package own_test

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/enginetest"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// executable writes a program of the user's configuration or, with a relative name, of the project.
func executable(t testing.TB, p enginetest.Fixture, name, text string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("programs with #!")
	}
	p.Write(t, name, text)
	path := filepath.Join(p.Dir, name)
	if rest, ok := strings.CutPrefix(name, "~/"); ok {
		path = filepath.Join(p.Home, rest)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestCommands: what a command prints is shown, asks, or begins a turn; what is wrong is an error that names it.
func TestCommands(t *testing.T) {
	p := enginetest.New(t)
	dir := "~/.config/knack/commands/"
	executable(t, p, dir+"hello", "#!/bin/sh\n# knack-command: Greets.\necho \"hello [$1] in $(basename \"$PWD\")\"; cat\n")
	executable(t, p, dir+"quiet", "#!/bin/sh\n# knack-command: Says nothing.\n")
	executable(t, p, dir+"fails", "#!/bin/sh\n# knack-command: Fails.\necho why >&2; exit 3\n")
	executable(t, p, dir+"asks.sh", `#!/bin/sh
# knack-command: {"description": "Asks.", "hint": "WHAT", "complete": true}
[ "$1" = --knack-complete ] && { echo "red $2"; echo blue; exit; }
case $(cat) in
*'"answers":[]'*) echo '{"text": "first", "choose": {"title": "Which?", "options": ["a", {"id": "b", "label": "B"}]}}' ;;
*) echo "{\"notice\": \"picked $KNACK_ANSWER\", \"prompt\": \"use $KNACK_ANSWER\"}" ;;
esac
`)
	executable(t, p, dir+"rows", "#!/bin/sh\n# knack-command: A table.\n"+
		`echo '{"table": {"columns": ["a", "b"], "rows": [["1", "2"]]}}'`+"\n")
	executable(t, p, dir+"bad", "#!/bin/sh\n# knack-command: A bad table.\necho '{\"table\": {\"rows\": [[\"1\"], []]}}'\n")
	executable(t, p, dir+"wrong", "#!/bin/sh\n# knack-command: A wrong key.\necho '{\"text\": \"a\", \"txet\": \"b\"}'\n")
	executable(t, p, dir+"json", "#!/bin/sh\n# knack-command: Other JSON.\necho '{\"x\": 1}'\n")
	executable(t, p, dir+"help", "#!/bin/sh\n# knack-command: Taken.\n")
	executable(t, p, dir+"deep/down", "#!/bin/sh\n# knack-command: Too deep.\n")
	executable(t, p, dir+"late", "#!/bin/sh\n"+strings.Repeat("\n", 20)+"# knack-command: Too late.\n")
	p.Write(t, dir+"plain.md", "A template.\n# knack-command: not one")

	picks := "b"
	person := enginetest.PersonFunc(func(_ context.Context, q engine.Question) (engine.Answer, error) {
		if q.Title != "/asks asks: Which?" || q.Asker != engine.AskerCommand || len(q.Options) != 2 {
			t.Errorf("asked %+v", q)
		}
		return engine.Answer{Option: picks, Declined: picks == ""}, nil
	})
	e, s := p.Open(t, p.Options(llmtest.New(llmtest.Answer{Want: []string{"use b"}, Text: "done"})), person,
		engine.SessionOptions{})
	for _, c := range []struct{ typed, want string }{
		{"/hello", "reply hello: hello [] in work\n{\"arguments\":\"\",\"answers\":[]}"},
		{`/hello a "b c"`, `reply hello: hello [a "b c"] in work`},
		{"/quiet", "reply quiet: \n"},
		{"/fails", "error: /fails: Command exited with code 3\nStandard error:\nwhy"},
		{"/rows", "reply rows: a  b\n1  2"},
		{"/bad", "error: /bad: row 2 of its table has 0 cells, not 1"},
		{"/wrong", `error: /wrong: it printed an object that cannot be shown: unknown field "txet"; its keys are text, `},
		{"/json", `reply json: {"x": 1}`},
		{"/asks", "reply asks: first\npicked b\n"},
	} {
		if got := enginetest.Run(t, s, c.typed); !strings.HasPrefix(got+"\n", c.want) {
			t.Errorf("%s: %q, want %q", c.typed, got, c.want)
		}
	}
	if text := enginetest.Conversation(s); !strings.Contains(text, "use b") {
		t.Errorf("no turn began: %q", text)
	}
	picks = ""
	if got := enginetest.Run(t, s, "/asks"); !strings.HasPrefix(got, "reply asks: first") || strings.Contains(got, "use") {
		t.Errorf("after a question that was declined: %q", got)
	}
	if got := strings.Join(s.Now().Complete("/asks x"), ","); got != "/asks red x,/asks blue" {
		t.Errorf("completes %q", got)
	}
	if got := s.Now().Complete("/hello x"); len(got) > 0 {
		t.Errorf("a command that does not declare it completes %q", got)
	}
	problems := ""
	for _, x := range e.Project().Problems(e.Catalog()) {
		problems += filepath.Base(x.Path) + ": " + x.Message + "\n"
	}
	for _, want := range []string{"help: the command help is not used: a command of Knack has that name",
		"down: the command is left out: it must be directly in", "late: the command is left out: its line 22 has"} {
		if !strings.Contains(problems, want) {
			t.Errorf("no problem %q in\n%s", want, problems)
		}
	}
	if strings.Contains(problems, "plain.md") {
		t.Error(problems)
	}

	// A rule that denies it holds although it was typed.
	o := p.Options(llmtest.New())
	o.Values["permissions.deny"] = []string{"Tool(/hello)"}
	_, s = p.Open(t, o, nil, engine.SessionOptions{})
	if got := enginetest.Run(t, s, "/hello"); !strings.Contains(got, "denies it") {
		t.Errorf("denied: %q", got)
	}
	if got := enginetest.Run(t, s, "/asks"); !strings.Contains(got, "nobody to ask") {
		t.Errorf("without a user: %q", got)
	}
}

// TestProjectCommands: nothing of a project's commands runs or is listed before trust, and a changed byte of any file
// beside them ends that.
func TestProjectCommands(t *testing.T) {
	p := enginetest.New(t, ".knack/commands/lib", "one")
	executable(t, p, ".knack/commands/go", "#!/bin/sh\n# knack-command: Goes.\ntouch ran; cat .knack/commands/lib\n")
	listed := func(s *engine.Session) bool {
		for _, c := range s.Now().Commands() {
			if c.Name == "go" {
				return true
			}
		}
		return false
	}
	_, s := p.Open(t, p.Options(llmtest.New()), nil, engine.SessionOptions{})
	if got := enginetest.Run(t, s, "/go"); listed(s) || p.Content(t, "ran") != "none" {
		t.Fatalf("before trust: %q", got)
	}
	o := p.Options(llmtest.New())
	o.Trust = true
	_, s = p.Open(t, o, nil, engine.SessionOptions{})
	if got := enginetest.Run(t, s, "/go"); !listed(s) || got != "reply go: one\ndone: " || p.Content(t, "ran") == "none" {
		t.Fatalf("after trust: %q", got)
	}
	p.Write(t, ".knack/commands/lib", "two")
	if got := enginetest.Run(t, s, "/go"); !strings.Contains(got, "error: /go: go was not run") {
		t.Errorf("a changed file: %q", got)
	}
	// What /reload reads is what may run then.
	executable(t, p, ".knack/commands/go", "#!/bin/sh\n# knack-command: Goes on.\necho on\n")
	if got := enginetest.Run(t, s, "/go"); !strings.Contains(got, "error: ") {
		t.Errorf("a changed program: %q", got)
	}
}
