package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestExamples runs every skill of examples/skills from end to end: the procedures offline, the others with a
// scripted model. Each script has the name of its skill and finds all skills in examples/skills.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, need := range []string{"sh", "awk", "git"} {
		if _, err := exec.LookPath(need); err != nil {
			t.Skipf("the examples' scripts need %s: %v", need, err)
		}
	}
	skills := os.DirFS("../../../examples/skills")
	scripts := map[string]bool{}
	for _, s := range glob(t, "testdata/examples/*.txtar") {
		scripts[s[:len(s)-len(".txtar")]] = true
	}
	for _, name := range glob(t, "../../../examples/skills/*") {
		if !scripts[name] {
			t.Errorf("examples/skills/%s has no script in testdata/examples", name)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/examples",
		UpdateScripts: *update,
		WorkdirRoot:   scriptRoot(t),
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"llmserver": llmserver, "exits": exits,
		},
		Setup: func(e *testscript.Env) error {
			if err := atHome(e, "GIT_CONFIG_NOSYSTEM=1",
				"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_AUTHOR_DATE=2026-03-04T12:00:00Z",
				"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com",
				"GIT_COMMITTER_DATE=2026-03-04T12:00:00Z"); err != nil {
				return err
			}
			return os.CopyFS(filepath.Join(e.WorkDir, "examples", "skills"), skills)
		},
	})
}

func glob(t *testing.T, pattern string) (names []string) {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) == 0 {
		t.Fatalf("%s: no match (%v)", pattern, err)
	}
	for _, f := range found {
		names = append(names, filepath.Base(f))
	}
	return names
}
