package cli

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestTranscripts continues transcripts of other agents, once in each wire format: the strict servers accept what the
// imported session sends. $TRANSCRIPTS is the directory of the transcripts.
func TestTranscripts(t *testing.T) {
	transcripts, err := filepath.Abs("../../../engine/transcript/testdata")
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
					"llmserver": signedServer, "conversation": writeConversation,
				},
				Setup: func(e *testscript.Env) error {
					return atHome(e, "MODEL="+f.provider+"/default", "TRANSCRIPTS="+transcripts)
				},
			})
		})
	}
}

// signedServer is llmserver for the provider that signed the thinking in the transcripts: llmserver SCRIPT.json
// REQUESTS.jsonl
func signedServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: llmserver script.json requests.jsonl")
	}
	s := scriptedServer(ts, args...)
	s.Signed("sig-of-1", "I look at the plan and the log.")
	s.Signed("pi-sig", "Glaze notes are in glaze.md.")
}
