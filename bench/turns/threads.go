package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/knack-agent/knack/bench"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/anthropic"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
)

// A threadRow contains what a conversation sends: whole requests, or with threads only what is new. Tokens are those
// that the scripted server counts, which is what a vendor charges for or reads from its cache.
type threadRow struct {
	Calls   int   `json:"calls"`
	Threads bool  `json:"threads"`
	Bytes   int64 `json:"bytes"`  // of all requests
	Tokens  int   `json:"tokens"` // of all requests
	Refused int   `json:"refused"`
}

// threads measures conversations of so many calls.
func (r *result) threads(out io.Writer, sizes ...int) error {
	table := bench.Table{Title: "What a conversation sends", Head: []string{"calls", "messageThreads", "kB", "tokens",
		"refused"}}
	for _, calls := range sizes {
		for _, on := range []bool{false, true} {
			row, err := oneThread(calls, on)
			if err != nil {
				return err
			}
			r.Threads = append(r.Threads, row)
			table.Add(row.Calls, row.Threads, int(row.Bytes/1000), row.Tokens, row.Refused)
		}
	}
	return table.Write(out)
}

func oneThread(calls int, on bool) (row threadRow, err error) {
	var script []llmtest.Answer
	for i := range calls {
		script = append(script, llmtest.Answer{Text: "I look.", Calls: []llmtest.Call{{ID: fmt.Sprint("toolu_", i),
			Name: "look", Input: json.RawMessage(`{"path": "a.txt"}`)}}})
	}
	s := llmtest.NewServer(append(script, llmtest.Reply("done"))...)
	defer s.Close()
	dir, err := os.MkdirTemp("", "knack-bench-")
	if err != nil {
		return row, err
	}
	defer os.RemoveAll(dir)
	store := session.Store{Dir: dir}
	l, err := store.Create(session.Header{})
	if err != nil {
		return row, err
	}
	defer l.Close()
	client := &counting{base: &http.Transport{}}
	m := anthropic.New(llm.Endpoint{Name: "m", BaseURL: s.URL, Key: llmtest.Key, Threads: on,
		Client: &http.Client{Transport: client}, Info: llm.Info{ID: "test/m"}})
	if err := ask(l, m, calls+1); err != nil {
		return row, err
	}
	var used llm.Usage
	for _, u := range l.State().Usage {
		used.Add(u)
	}
	return threadRow{calls, on, client.all, used.Input + used.CacheRead + used.CacheWrite, len(s.Refused())}, nil
}
