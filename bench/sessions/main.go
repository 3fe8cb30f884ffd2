// Command sessions measures what large sessions cost: listing them, resuming one for a single prompt, and copying
// it, compared with a floor that only reads the file.
//
//	go run ./sessions [-entries 100000] [-mb 1024] [-runs 3] [-json FILE]
//
// It makes three sessions in a directory of their own: many small entries, few large ones, both compacted as the
// program does it, and one that the model sees in whole. The peak memory is that of the program's process.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/knack-agent/knack/bench"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// A row is one operation on one session, with its measurements.
type row struct {
	Session string     `json:"session"`
	Size    int64      `json:"bytes"`
	Entries int        `json:"entries"`
	Seen    int        `json:"seen_bytes"` // by the model
	What    string     `json:"what"`
	Time    bench.Stat `json:"ms"`
	Memory  bench.Stat `json:"mib"`
}

// A kind is a session to make: entries of size bytes each, with a compaction after every part of them.
type kind struct {
	name                string
	entries, size, part int
}

func main() {
	bench.Launched()
	log.SetFlags(0)
	log.SetPrefix("sessions: ")
	entries := flag.Int("entries", 100_000, "entries of the session with many")
	mb := flag.Int("mb", 1024, "MiB of the large session")
	runs := flag.Int("runs", 3, "runs of each, after one to warm up")
	asJSON := flag.String("json", "", "file for the result as JSON")
	flag.Parse()
	if *entries < 100 || *mb < 1 || *runs < 1 {
		log.Fatal("-entries needs at least 100, -mb and -runs at least 1")
	}
	kinds := []kind{
		{"many entries", *entries, 300, 2000},
		{"large", *mb * 128, 16 << 10, 200},
		{"seen in whole", 1600, 16 << 10, 0},
	}
	rows, err := measure(os.Stdout, kinds, *runs)
	if err == nil {
		err = bench.WriteJSON(*asJSON, rows)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func measure(out io.Writer, kinds []kind, runs int) ([]row, error) {
	tmp, err := os.MkdirTemp("", "knack-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	program := filepath.Join(tmp, "knack")
	if err := bench.Build(program, "github.com/knack-agent/knack/cmd/knack"); err != nil {
		return nil, err
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, bench.TextAnswer("ok"))
	}))
	defer server.Close()
	var rows []row
	fmt.Fprintln(out, bench.ThisMachine())
	table := bench.Table{Title: "Sessions: medians, the middle half in brackets",
		Head: []string{"session", "size MiB", "seen MiB", "what", "ms", "peak MiB"}}
	for _, k := range kinds {
		more, err := measureOne(filepath.Join(tmp, strings.ReplaceAll(k.name, " ", "-")), program, server.URL, k, runs)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
		for _, r := range more {
			table.Add(r.Session, r.Size>>20, bench.Number(float64(r.Seen)/(1<<20)), r.What, r.Time, r.Memory)
		}
	}
	return rows, table.Write(out)
}

// measureOne makes a session in a home directory of its own and measures all operations on it.
func measureOne(home, program, server string, k kind, runs int) ([]row, error) {
	work := filepath.Join(home, "work")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return nil, err
	}
	env := []string{"HOME=" + home, "XDG_STATE_HOME=" + filepath.Join(home, "state"), "XDG_CONFIG_HOME=" + home,
		"PATH=/usr/bin:/bin", "ANTHROPIC_API_KEY=k", "ANTHROPIC_BASE_URL=" + server}
	ctx := context.Background()
	// A first session, so that the program names the directory of this project's sessions.
	if _, text, err := bench.Run(ctx, work, env, program, "-p", "--session-id", "first", "hello"); err != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	made, err := filepath.Glob(filepath.Join(home, "state", "knack", "sessions", "*", "first.jsonl"))
	if err != nil || len(made) != 1 {
		return nil, fmt.Errorf("the session is in %q, %v", made, err)
	}
	store := session.Store{Dir: filepath.Dir(made[0]), Project: work}
	seen, err := write(store, k)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(store.Dir, "big.jsonl")
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	base := row{Session: k.name, Size: info.Size(), Entries: k.entries, Seen: seen}
	var rows []row
	for _, op := range []struct {
		what string
		args []string
	}{
		{"floor: read the file", []string{"/bin/cat", path}},
		{"session list", []string{program, "session", "list"}},
		{"complete an ID", []string{program, "__complete", "session", "show", ""}},
		{"resume and ask", []string{program, "-p", "--no-skills", "-r", "big", "hello"}},
		{"fork", []string{program, "session", "fork", "big"}},
	} {
		var times, memory []float64
		for round := -1; round < runs; round++ {
			u, text, err := bench.Run(ctx, work, env, op.args[0], op.args[1:]...)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", k.name, op.what, err)
			}
			if op.what == "fork" {
				os.Remove(filepath.Join(store.Dir, strings.TrimSpace(text)+".jsonl"))
			}
			if round >= 0 {
				times = append(times, float64(u.Wall)/float64(time.Millisecond))
				memory = append(memory, float64(u.RSS)/(1<<20))
			}
		}
		r := base
		r.What, r.Time, r.Memory = op.what, bench.StatOf(times), bench.StatOf(memory)
		rows = append(rows, r)
	}
	return rows, nil
}

// write makes the session big and returns how many bytes of it the model sees.
func write(store session.Store, k kind) (seen int, err error) {
	l, err := store.Create(session.Header{ID: "big"})
	if err != nil {
		return 0, err
	}
	text := strings.Repeat("a line of a file, one of several\n", k.size/33+1)[:k.size]
	add := func(e session.Entry) {
		if err == nil {
			_, err = l.Append(e)
		}
	}
	add(session.Entry{Type: session.TypeUser, User: &session.User{Parts: []llm.Part{llm.Text("read everything")}}})
	for i := 0; i < k.entries/2; i++ {
		id := fmt.Sprintf("toolu_%020d", i)
		input := json.RawMessage(fmt.Sprintf(`{"path":"file-%d.txt"}`, i))
		add(session.Entry{Type: session.TypeAnswer, Answer: &session.Answer{Stop: llm.ToolUse, Model: "anthropic/m",
			Usage: llm.Usage{Input: 10, Output: 20, CacheRead: 1000},
			Message: llm.Message{Role: llm.Assistant, Parts: []llm.Part{
				{Call: &llm.ToolCall{ID: id, Name: "read", Input: input}}}}}})
		add(session.Entry{Type: session.TypeResult, Result: &session.Result{
			ToolResult: llm.ToolResult{ID: id, Name: "read", Parts: []llm.Part{llm.Text(text)}}}})
		if k.part > 0 && i%k.part == k.part-1 {
			add(session.Entry{Type: session.TypeCompaction, Compaction: &session.Compaction{
				Trigger: session.TriggerAuto, Summary: "It read many files.", Kept: l.Last() - 1}})
		}
	}
	add(session.Entry{Type: session.TypeTurnEnd, TurnEnd: &session.TurnEnd{Reason: session.EndDone}})
	seen = l.Bytes()
	return seen, cmp.Or(err, l.Close())
}
