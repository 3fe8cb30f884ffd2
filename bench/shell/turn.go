package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"github.com/knack-agent/knack/bench"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/anthropic"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// turns creates a session and returns a function that sends one request in it, which is
// answered with a call.
func turns(ws workspace.Workspace, dir string, server *httptest.Server) (turn func() error, stop func() error,
	err error) {
	store := session.Store{Dir: dir}
	l, err := store.Create(session.Header{})
	if err != nil {
		return nil, nil, err
	}
	a := &agent.Agent{Tools: coding.Tools(ws, coding.Options{}), Limits: agent.Limits{Requests: 1},
		Model: anthropic.New(llm.Endpoint{Name: "m", BaseURL: server.URL, Client: server.Client(),
			Info: llm.Info{ID: "test/m"}}),
		Policy: agent.Policy{Gate: func(agent.Scopes) tool.Gate { return tool.AllowAll }}}
	return func() error {
		for _, err := range a.Run(context.Background(), l, agent.Typed("go on")) {
			if err != nil {
				return err
			}
		}
		return nil
	}, l.Close, nil
}

var answers atomic.Int64

// answer answers a request with a call of bash.
func answer(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, bench.CallAnswer(answers.Add(1), "bash", `{"command": "true"}`))
}
