package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/knack-agent/knack/bench"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// A place is a home directory with a project, and the store of its sessions.
type place struct {
	work, state string
	env         []string
	store       session.Store
}

// newPlace runs the program once, so that it names the directory of the project's sessions.
func newPlace(home, program, server string) (*place, error) {
	p := &place{work: filepath.Join(home, "work"), state: filepath.Join(home, "state")}
	p.env = []string{"HOME=" + home, "XDG_STATE_HOME=" + p.state, "XDG_CONFIG_HOME=" + home, "PATH=" + os.Getenv("PATH"),
		"ANTHROPIC_API_KEY=k", "ANTHROPIC_BASE_URL=" + server}
	if err := os.MkdirAll(p.work, 0o755); err != nil {
		return nil, err
	}
	if _, _, err := bench.Run(context.Background(), p.work, p.env, program, "-p", "--session-id", "first", "hello"); err != nil {
		return nil, err
	}
	made, err := filepath.Glob(filepath.Join(p.state, "knack", "sessions", "*", "first.jsonl"))
	if err != nil || len(made) != 1 {
		return nil, fmt.Errorf("the session is in %q, %v", made, err)
	}
	p.store = session.Store{Dir: filepath.Dir(made[0]), Project: p.work}
	return p, nil
}

// scripted is a server that answers each request with text, after a pause.
func scripted(pause time.Duration) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		time.Sleep(pause)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, bench.TextAnswer(strings.Repeat("This is the answer. ", 20)))
	}))
}

// fullDisk runs two long prompts in state directories on disks of many sizes, and more after the disk got space again.
// A run may fail and leave a line that was cut off, which is reported once, when the session is continued. No session
// may be empty or stay damaged.
func fullDisk(tmp, program string) (*tally, error) {
	server := scripted(0)
	defer server.Close()
	home := filepath.Join(tmp, "full")
	p, err := newPlace(home, program, server.URL)
	if err != nil {
		return nil, err
	}
	t := &tally{What: "full disk"}
	small := filepath.Join(tmp, "small")
	if err := os.Mkdir(small, 0o700); err != nil {
		return nil, err
	}
	// The listing runs while the tmpfs is mounted. Before it, the disk gets space again.
	script := `mount -t tmpfs -o size=$1 tmpfs "$2" || exit 99
long=$(head -c 20000 /dev/zero | tr '\0' x)
"$3" -p "$long" >"$4" 2>&1; first=$?
"$3" -p -c "$long" >>"$4" 2>&1; echo "exit $first $?"
mount -o remount,size=16m "$2" || exit 99
"$3" session list 2>&1 >/dev/null
find "$2" -name '*.jsonl' -size 0
"$3" -p 'once more' >>"$4" 2>&1
"$3" -p -c 'and again' >>"$4" 2>&1
for s in "$2"/knack/sessions/*/*.jsonl; do
	id=$(basename "$s" .jsonl)
	"$3" -p -r "$id" 'mend it' >>"$4" 2>&1
	"$3" -p -r "$id" 'it is whole' 2>&1 >>"$4" | grep -v '^knack: hint'
done`
	for kb := 4; kb <= 64; kb += 4 {
		cmd := exec.Command("unshare", "-rm", "sh", "-c", script, "sh", fmt.Sprint(kb*1024), small, program,
			filepath.Join(tmp, "full.log"))
		cmd.Dir, cmd.Env = p.work, append(p.env[:len(p.env):len(p.env)], "XDG_STATE_HOME="+small)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && (!errors.As(err, &exit) || exit.ExitCode() == 99) || bytes.Contains(out, []byte("unshare failed")) {
			return nil, errLeftOut
		}
		t.Runs++
		first, rest, _ := strings.Cut(string(out), "\n")
		switch {
		case strings.TrimSpace(rest) != "":
			t.wrong("%d KiB: %s", kb, strings.TrimSpace(rest))
		case first == "exit 0 0":
			t.Whole++
		default:
			t.Errors++
		}
	}
	return t, nil
}

// entriesOfBig is the number of entries of the session that is copied.
const entriesOfBig = 20_000

// killing kills forks, imports and compactions at random moments.
func killing(tmp, program string, kills int, random *rand.Rand) ([]*tally, error) {
	server := scripted(30 * time.Millisecond)
	defer server.Close()
	p, err := newPlace(filepath.Join(tmp, "killed"), program, server.URL)
	if err != nil {
		return nil, err
	}
	if err := p.write("big", entriesOfBig); err != nil {
		return nil, err
	}
	foreign := filepath.Join(tmp, "big.jsonl")
	data, err := os.ReadFile(filepath.Join(p.store.Dir, "big.jsonl"))
	if err == nil {
		err = os.WriteFile(foreign, data, 0o600)
	}
	if err != nil {
		return nil, err
	}
	var all []*tally
	for _, op := range []struct {
		what string
		args []string
	}{
		{"a fork", []string{"session", "fork", "big"}},
		{"an import", []string{"session", "import", foreign}},
		{"a compaction", []string{"-p", "-r", "talk", "/compact"}},
	} {
		t := &tally{What: "kill -9 during " + op.what}
		all = append(all, t)
		if err := p.writeTalk(); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := p.run(program, 0, op.args...); err != nil {
			return nil, fmt.Errorf("%s: %w", op.what, err)
		}
		whole := time.Since(start)
		for range kills {
			if err := p.clean(); err != nil {
				return nil, err
			}
			t.Runs++
			err := p.run(program, time.Duration(random.Int64N(int64(whole)))+1, op.args...)
			if n := p.check(t); n == 0 {
				continue
			}
			if err != nil {
				t.Errors++
			} else {
				t.Whole++
			}
		}
	}
	return all, nil
}

// run runs the program like runFor.
func (p *place) run(program string, after time.Duration, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = p.work, p.env
	return runFor(cmd, after)
}

// runFor runs a command and kills it after the given time. If the time is 0, it waits until the command ends.
func runFor(cmd *exec.Cmd, after time.Duration) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	if after > 0 {
		defer time.AfterFunc(after, func() { cmd.Process.Kill() }).Stop()
	}
	return cmd.Wait()
}

// check compares all listed sessions with what they may be, and returns how many are right.
func (p *place) check(t *tally) (right int) {
	all, err := p.store.List()
	if err != nil {
		t.wrong("the list: %v", err)
		return 0
	}
	for _, s := range all {
		l, err := p.store.Open(s.ID)
		if err != nil {
			t.wrong("%v", err)
			return 0
		}
		n := l.Last()
		err = l.Close()
		switch {
		case err != nil:
			t.wrong("%v", err)
			return 0
		case s.ID == "first":
		case s.ID == "talk":
			if n < talkEntries {
				t.wrong("the conversation has %d entries, before it had %d", n, talkEntries)
				return 0
			}
		case n != entriesOfBig && n != entriesOfBig+1: // an import ends the turn
			t.wrong("session %s has %d of %d entries", s.ID, n, entriesOfBig)
			return 0
		}
		right++
	}
	return right
}

// clean removes copies and makes the conversation new.
func (p *place) clean() error {
	files, err := os.ReadDir(p.store.Dir)
	if err != nil {
		return err
	}
	for _, f := range files {
		if name := f.Name(); strings.HasSuffix(name, ".jsonl") && name != "big.jsonl" && name != "first.jsonl" {
			if err := os.Remove(filepath.Join(p.store.Dir, name)); err != nil {
				return err
			}
		}
	}
	return p.writeTalk()
}

// talkEntries is the number of entries of the conversation that is compacted.
const talkEntries = 200

func (p *place) writeTalk() error {
	os.Remove(filepath.Join(p.store.Dir, "talk.jsonl"))
	return p.write("talk", talkEntries)
}

// write makes a session with questions and answers.
func (p *place) write(id string, entries int) error {
	l, err := p.store.Create(session.Header{ID: id})
	if err != nil {
		return err
	}
	text := strings.Repeat("some words ", 40)
	for i := range entries {
		e := session.Entry{Type: session.TypeUser, User: &session.User{Parts: []llm.Part{llm.Text(text)}}}
		if i%2 == 1 {
			e = session.Entry{Type: session.TypeAnswer, Answer: &session.Answer{Stop: llm.EndTurn, Model: "anthropic/m",
				Message: llm.Message{Role: llm.Assistant, Parts: []llm.Part{llm.Text(text)}}}}
		}
		if _, err := l.Append(e); err != nil {
			return errors.Join(err, l.Close())
		}
	}
	return l.Close()
}
