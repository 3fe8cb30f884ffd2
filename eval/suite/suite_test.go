package suite_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/sandbox"
	_ "github.com/knack-agent/knack/confine/sandbox/launcher"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/eval/record"
	"github.com/knack-agent/knack/eval/suite"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir string) *suite.Suite {
	t.Helper()
	s, err := suite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Problems) > 0 {
		t.Fatal(s.Problems)
	}
	return s
}

// options returns Options without the user's settings. It skips the test if trials cannot have the sandbox.
func options(t *testing.T) suite.Options {
	policy, err := sandbox.Default(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	box := sandbox.New(policy, sandbox.Auto)
	defer box.Close()
	if box.Report().Level != sandbox.Complete {
		t.Skip("there is no sandbox on this machine")
	}
	home := t.TempDir()
	return suite.Options{Engine: engine.Options{NoSettings: true, NoSkills: true, Layers: []string{},
		Env: func(name string) string {
			switch name {
			case "HOME":
				return home
			case "PATH":
				return os.Getenv("PATH")
			}
			return ""
		}}}
}

const setText = `{"skill_name": "report", "evals": [{"id": "sales", "prompt": "write the report", "files": ["evals/sales.csv"],
	"assertions": [{"type": "file-contains", "path": "report.md", "value": "total 7"},
		{"type": "command", "value": "grep -q 7 report.md"}]}]}`

// reporter makes a model that writes the report only if it has loaded the skill.
func reporter() *llmtest.Script {
	return &llmtest.Script{Func: func(req *llm.Request) llmtest.Answer {
		all, has, results := req.System, false, 0
		for _, t := range req.Tools {
			has = has || t.Name == "Skill" && strings.Contains(t.Description, "report")
		}
		for _, m := range req.Messages {
			for _, p := range m.Parts {
				if p.Result != nil {
					results++
				}
			}
			all += llm.TextOf(m.Parts)
		}
		has = has || strings.Contains(all, "Write reports of sales.")
		switch {
		case !has:
			return llmtest.Reply("I cannot do that.")
		case results == 0:
			return llmtest.Use("Skill", map[string]string{"skill": "report"})
		case results == 1:
			return llmtest.Use("write", map[string]string{"path": "report.md", "content": "# Report\ntotal 7\n"})
		}
		return llmtest.Reply("The report is in report.md.")
	}}
}

func skill(t *testing.T) string {
	dir := filepath.Join(t.TempDir(), "report")
	write(t, filepath.Join(dir, "SKILL.md"), "---\nname: report\ndescription: Write reports of sales.\n---\nWrite report.md.\n")
	write(t, filepath.Join(dir, "evals", "evals.json"), setText)
	write(t, filepath.Join(dir, "evals", "sales.csv"), "a,3\nb,4\n")
	return dir
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestRecordReplay: a model that needs the skill is recorded, and the recording gives the same verdict without it.
func TestRecordReplay(t *testing.T) {
	o := options(t)
	dir := skill(t)
	s := open(t, dir)
	o.Mode, o.Recordings, o.Commands = record.Record, s.Recordings(), true
	o.Model, o.Run = reporter(), eval.Options{Trials: 5, Jobs: 2}
	first, err := s.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if k := first.Tasks; k.Configs[0].Pass.Hits != 5 || k.Configs[1].Pass.Hits != 0 || k.Against[0].Verdict != eval.Helps {
		t.Fatal(text(t, first))
	}
	o.Mode, o.Model = record.Replay, nil
	again, err := open(t, dir).Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Problems) > 0 || again.Tasks.Against[0] != first.Tasks.Against[0] || again.Model != first.Model {
		t.Fatal(text(t, again))
	}
}

// TestOlder: a recording of another text of the skill says so, and auto asks again.
func TestOlder(t *testing.T) {
	o := options(t)
	dir := skill(t)
	s := open(t, dir)
	o.Mode, o.Recordings = record.Auto, s.Recordings()
	model := reporter()
	o.Model, o.Run = model, eval.Options{Trials: 1, Configs: []eval.Config{eval.With}}
	run := func() *eval.Report {
		t.Helper()
		p, err := open(t, dir).Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	run()
	asked := len(model.Requests())
	if run(); len(model.Requests()) != asked || asked == 0 {
		t.Errorf("auto asked again: %d requests, then %d", asked, len(model.Requests()))
	}
	write(t, filepath.Join(dir, "SKILL.md"), "---\nname: report\ndescription: Write reports of sales.\n---\nWrite it well.\n")
	o.Mode = record.Replay
	if p := run(); len(p.Problems) == 0 || !strings.Contains(p.Problems[0].Message, "older than the skill report") {
		t.Error(text(t, p.Problems))
	}
	o.Mode = record.Auto
	if p := run(); len(p.Problems) > 0 || len(model.Requests()) != 2*asked {
		t.Errorf("%d requests; %s", len(model.Requests()), text(t, p.Problems))
	}
}

// TestNamedModel: what a model that the skill names answers is recorded too, and a replay needs no key for it.
func TestNamedModel(t *testing.T) {
	o := options(t)
	dir := skill(t)
	write(t, filepath.Join(dir, "SKILL.md"),
		"---\nname: report\ndescription: Write reports of sales.\nmodel: anthropic/claude-haiku-4-5\n---\nWrite report.md.\n")
	s := open(t, dir)
	o.Mode, o.Recordings, o.Model = record.Record, s.Recordings(), reporter()
	o.Run = eval.Options{Trials: 1, Configs: []eval.Config{eval.With}}
	named := reporter()
	named.Model.ID = "anthropic/claude-haiku-4-5"
	asked := ""
	o.Find = func(_ context.Context, name, current string) (llm.Model, error) {
		asked = name
		return named, nil
	}
	p, err := s.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if asked == "" || len(named.Requests()) == 0 || p.Tasks.Configs[0].Pass.Of != 1 {
		t.Fatalf("the named model %q got %d requests: %s", asked, len(named.Requests()), text(t, p))
	}
	o.Mode, o.Model, o.Find = record.Replay, nil, nil
	again, err := open(t, dir).Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Problems) > 0 || again.Tasks.Configs[0].Pass != p.Tasks.Configs[0].Pass {
		t.Error(text(t, again))
	}
}

// TestOld: an older version is that of a ref of git, which is left as it is, or of a directory.
func TestOld(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := skill(t)
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", filepath.Dir(dir), "-c", "user.name=a", "-c", "user.email=a@b.example"},
			args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-qm", "one")
	write(t, filepath.Join(dir, "SKILL.md"), "---\nname: report\ndescription: New.\n---\nNew.\n")
	s := open(t, dir)
	old, remove, err := suite.Old(t.Context(), s.Skill, "HEAD")
	if err != nil {
		t.Fatal(err)
	}
	body, err := old.Body(t.Context())
	if err != nil || old.Description != "Write reports of sales." || old.Name != "report" || !strings.Contains(body, "report.md") {
		t.Errorf("%+v %q %v", old, body, err)
	}
	remove()
	if _, err := os.Stat(old.Dir); err == nil {
		t.Error("the directory is still there")
	}
	for _, bad := range []string{"no-such-ref", "--output=/tmp/x", ""} {
		if _, _, err := suite.Old(t.Context(), s.Skill, bad); err == nil {
			t.Errorf("%q is a ref", bad)
		}
	}
}
