package cli

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
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
	s := scriptedServer(ts, args...)
	s.Signed("sig-of-1", "I look at the plan and the log.")
	s.Signed("pi-sig", "Glaze notes are in glaze.md.")
}
