package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/knack-agent/knack/llm/llmtest"
)

// TestTranscripts goes on with transcripts of other agents, once in each wire
// format: the strict servers take what the imported session sends. $TRANSCRIPTS
// is where the transcripts lie.
func TestTranscripts(t *testing.T) {
	transcripts, err := filepath.Abs("../transcript/testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range wireFormats {
		t.Run(f.provider, func(t *testing.T) {
			t.Parallel()
			testscript.Run(t, testscript.Params{
				Dir:           "testdata/transcripts",
				Condition:     func(name string) (bool, error) { return name == f.provider, nil },
				UpdateScripts: *update,
				Cmds: map[string]func(*testscript.TestScript, bool, []string){
					"llmserver": signedServer, "heard": heard,
				},
				Setup: func(e *testscript.Env) error {
					return atHome(e, "MODEL="+f.provider+"/default", "TRANSCRIPTS="+transcripts)
				},
			})
		})
	}
}

// signedServer is llmserver, by the provider that signed the transcripts'
// thinking: llmserver SCRIPT.json REQUESTS.jsonl
func signedServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: llmserver script.json requests.jsonl")
	}
	answers, err := llmtest.ReadScript(ts.MkAbs(args[0]))
	ts.Check(err)
	s := llmtest.NewServer(answers...)
	ts.Defer(s.Close)
	s.Signed("sig-of-1", "I look at the plan and the log.")
	s.Signed("pi-sig", "Glaze notes are in glaze.md.")
	f, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	ts.Defer(func() { f.Close() })
	s.Record(f)
	for _, kv := range s.Env() {
		k, v, _ := strings.Cut(kv, "=")
		ts.Setenv(k, v)
	}
	ts.Defer(func() {
		if refused := s.Refused(); len(refused) > 0 {
			ts.Logf("the server refused: %q", refused)
		}
	})
}
