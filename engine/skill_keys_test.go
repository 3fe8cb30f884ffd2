package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
)

// TestSkillProblems writes metadata for Knack in each way that has no effect: each is named with what to write.
func TestSkillProblems(t *testing.T) {
	bad := func(k *knack.Skill) error {
		if string(k.Own("goal")) == `"bad"` {
			return errors.New("it is bad")
		}
		return nil
	}
	parts := []engine.Part{
		{Name: "a", SkillKeys: map[string]func(*knack.Skill) error{"goal": bad}},
		{Name: "b", SkillKeys: map[string]func(*knack.Skill) error{"needs": func(*knack.Skill) error { return nil }}},
		{Name: "c"},
	}
	for metadata, want := range map[string]string{
		"metadata:\n  knack:\n    goal: fine\n    needs: [a]":    "",
		"metadata:\n  version: '1'\n  openclaw: {requires: [a]}": "",
		"metadata: text":                                               "",
		"metadata:\n  knack:\n    goal: bad":                           "metadata.knack.goal is not used, or not whole: it is bad",
		"metadata:\n  knack:\n    gaol: x":                             "metadata.knack.gaol has no effect (write goal)",
		"metadata:\n  knack:\n    \"x\\u001b[2J\": x":                  `metadata.knack.x\x1b[2J has no effect (the keys are goal, needs)`,
		"metadata:\n  knack: [needs]":                                  "metadata.knack has no effect: it is not a mapping",
		"metadata:\n  knack: '{\"needs\": [\"a\"]}'":                   "metadata.knack has no effect: it is not a mapping",
		"metadata:\n  knack.needs: [a]":                                "metadata.knack.needs has no effect (Knack's keys stand below",
		"metadata:\n  Knack:\n    needs: [a]":                          "metadata.Knack has no effect (Knack's keys stand below",
		"metadata:\n  knack_procedure: [[ls]]":                         "metadata.knack_procedure has no effect (write knack-procedure)",
		"metadata:\n  knack-procedures: [[ls]]":                        "metadata.knack-procedures has no effect (write knack-procedure)",
		"metadata:\n  knack-procedure: ls":                             "metadata.knack-procedure is not a list of lists of words",
		"metadata:\n  knack-procedure: '[[\"ls\", \"-l\"]]'":           "",
		"metadata:\n  knack-procedure:\n    - [ls]\n    - ['{0}', -l]": "step 2: the command is not a fixed word",
	} {
		dir := filepath.Join(t.TempDir(), "x")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		text := "---\nname: x\ndescription: Is x. Use when it is x.\n" + metadata + "\n---\nText.\n"
		if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		k, _ := knack.Check(t.Context(), dir)
		var got []string
		for _, p := range engine.SkillProblems(k, parts...) {
			got = append(got, p.Message+" ("+p.Hint+")")
		}
		if all := strings.Join(got, "\n"); len(got) > 1 || (all == "") != (want == "") || !strings.Contains(all, want) {
			t.Errorf("%s:\n got %q\nwant %q", metadata, all, want)
		}
	}
}
