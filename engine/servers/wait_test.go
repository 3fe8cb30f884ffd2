package servers_test

import (
	"context"
	"errors"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/mcp"
)

// TestCalledServers: a line that calls a skill of a server, or asks /why about one, waits until that server has been
// tried, and not for ever.
func TestCalledServers(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"/why late:greet", "/late:greet", "/why /late:greet"} {
		for _, answers := range []bool{true, false} {
			wait := 600.0
			if !answers {
				wait = 0.001
			}
			e, err := engine.Open(t.Context(), engine.Options{Dir: t.TempDir(), Env: func(string) string { return "" },
				Model: llmtest.New(), Commands: command.All(""), NoSettings: true,
				Values: map[string]any{"mcp.firstWait": wait, "sandbox.mode": "off"}})
			if err != nil {
				t.Fatal(err)
			}
			asked, release := make(chan struct{}, 10), make(chan struct{})
			s, err := e.Start(t.Context(), nil, engine.SessionOptions{Forget: true, Host: engine.Host{Servers: []mcp.Server{{
				Name: "late", Open: func(ctx context.Context) (mcp.Conn, error) {
					asked <- struct{}{}
					select {
					case <-release:
						return nil, errors.New("it is being repaired")
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				},
			}}}})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() {
				for range s.Run(t.Context(), agent.Typed(line)) {
				}
				close(ended)
			}()
			if !answers { // the line may end before the server's goroutine runs, but that was begun
				<-ended
				<-asked
			} else {
				select {
				case <-asked:
				case <-ended:
					t.Errorf("%s: the server was not started", line)
				}
				select {
				case <-ended:
					t.Errorf("%s: it was not waited for", line)
				default:
				}
				close(release)
			}
			<-ended
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
