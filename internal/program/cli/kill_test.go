//go:build unix

package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
)

var kills = flag.Int("kills", 15, "how often TestKill kills the program")

// TestKill kills the program at random moments while it runs commands, each of which writes its id into a file, and
// resumes the session. Everything that the program had shown must be recorded, no command may run twice or before its
// start was recorded, and the strict server must accept every request.
func TestKill(t *testing.T) {
	t.Parallel()
	const perSession = 25 // requests grow with the session
	total, ran, unsure := 0, 0, 0
	for left := *kills; left > 0; left -= perSession {
		n, r, u := killSession(t, min(left, perSession))
		total, ran, unsure = total+n, ran+r, unsure+u
		if t.Failed() {
			break
		}
	}
	t.Logf("%d kills, %d commands ran, %d calls had started and have no result", total, ran, unsure)
	if ran == 0 {
		t.Error("no command ran")
	}
}

func killSession(t *testing.T, kills int) (killed, ran, unsure int) {
	const most = 1500
	answers := []llmtest.Answer{llmtest.Reply("ready")}
	for i := range most {
		a := llmtest.Answer{}
		for j := range 1 + i%3 {
			id := fmt.Sprintf("k%d_%d", i, j)
			a.Calls = append(a.Calls, llmtest.Call{ID: id, Name: "bash",
				Input: map[string]any{"command": "echo " + id + " >>ran.txt"}})
		}
		answers = append(answers, a)
	}
	server := llmtest.NewServer(answers...)
	defer server.Close()
	d := newFixture(t, server)
	args := []string{"-p", "--trust", "--sandbox", "off", "--dangerously-skip-permissions", "--output-format",
		"stream-json"}
	knack := func(more ...string) *exec.Cmd {
		cmd := exec.Command("knack", append(args, more...)...)
		cmd.Dir, cmd.Env = d.dir, d.env
		return cmd
	}
	if out, err := knack("--session-id", "s", "hello").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found, err := filepath.Glob(filepath.Join(filepath.Dir(d.dir), ".local/state/knack/sessions/*/s.jsonl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("sessions: %v, %v", found, err)
	}
	store := session.Store{Dir: filepath.Dir(found[0])}

	shown := map[string]bool{} // "call ID" and "result ID" that the program has shown
	for i := range kills {
		cmd := knack("-r", "s", "go on")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var timer *time.Timer
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				break
			}
			note(shown, line)
			// After the first line the session is open. The first program runs at least one command, however busy the
			// machine is.
			if timer == nil && (i > 0 || strings.Contains(line, `"tool_result"`)) {
				timer = time.AfterFunc(rand.N(150*time.Millisecond), func() { cmd.Process.Kill() })
			}
		}
		cmd.Wait()
		if timer == nil || timer.Stop() {
			t.Fatalf("the program ended before it was killed: %s", stderr.String())
		}
		killed++
		log, err := store.Read("s")
		if err != nil {
			t.Fatal(err)
		}
		there := map[string]bool{}
		for _, e := range log.Branch() {
			switch {
			case e.Answer != nil:
				for _, p := range e.Answer.Message.Parts {
					if p.Call != nil {
						there["call "+p.Call.ID] = true
					}
				}
			case e.Started != nil:
				there["start "+e.Started.Call] = true
			case e.Result != nil:
				there["result "+e.Result.ID] = true
			}
		}
		for what := range shown {
			if !there[what] {
				t.Fatalf("after %d kills: %s was shown but not recorded; damage %q", killed, what, log.Damage())
			}
		}
		count := map[string]int{}
		data, _ := os.ReadFile(filepath.Join(d.dir, "ran.txt"))
		for _, id := range strings.Fields(string(data)) {
			if count[id]++; count[id] > 1 {
				t.Fatalf("after %d kills: %s ran twice", killed, id)
			}
			if !there["start "+id] {
				t.Fatalf("after %d kills: %s ran, but its start was not recorded", killed, id)
			}
		}
		ran, unsure = len(count), 0
		for what := range there {
			if id, ok := strings.CutPrefix(what, "start "); ok && !there["result "+id] {
				unsure++
			}
		}
	}
	// The resumed session tells the model about each call that may have run.
	last := server.Requests()[len(server.Requests())-1].Body
	if reported := bytes.Count(last, []byte("interrupted, may have happened")); reported > unsure {
		t.Errorf("%d calls are reported as uncertain, want at most %d", reported, unsure)
	}
	for _, r := range server.Refused() {
		if !strings.Contains(r, "no answer left") {
			t.Errorf("refused: %s", r)
		}
	}
	return killed, ran, unsure
}

// note records the calls and results that a line of stream-json shows.
func note(shown map[string]bool, line string) {
	var l struct {
		Message struct {
			Content []struct {
				Type, ID string
				Answers  string `json:"tool_use_id"`
			}
		}
	}
	if json.Unmarshal([]byte(line), &l) != nil {
		return // the last line, truncated by the kill
	}
	for _, c := range l.Message.Content {
		switch c.Type {
		case "tool_use":
			shown["call "+c.ID] = true
		case "tool_result":
			shown["result "+c.Answers] = true
		}
	}
}
