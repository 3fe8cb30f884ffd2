package bundled

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/knacktest"
)

func invoke(t *testing.T, set *Set, name, args string) *knack.Activation {
	t.Helper()
	c := knack.Load(t.Context(), set)
	for _, p := range c.Problems() {
		if p.Code != knack.CodeFeatureOff {
			t.Error(p)
		}
	}
	a, err := c.Invoke(t.Context(), knack.Invocation{Name: name, Args: args})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// skillDirs returns the directories of the program's skills: those of this package, and those of the engine's parts.
func skillDirs(t *testing.T) []string {
	t.Helper()
	own, err := filepath.Glob("skills/*")
	if err != nil || len(own) < 3 {
		t.Fatal(own, err)
	}
	ofParts, err := filepath.Glob("../engine/part/*/*/SKILL.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range ofParts {
		own = append(own, filepath.Dir(file))
	}
	return own
}

// TestSkills checks the program's skills by the rules for all skills.
func TestSkills(t *testing.T) {
	for _, dir := range skillDirs(t) {
		_, problems := knack.Check(t.Context(), dir)
		for _, p := range problems {
			if p.Severity != knack.Info && !(p.Code == "not-executable" && runtime.GOOS == "windows") {
				t.Error(p)
			}
		}
	}
}

// Nothing is written before a skill is invoked; then its files are written once for all callers; Close removes them.
func TestExtract(t *testing.T) {
	state := t.TempDir()
	set := New(state, "v1.2.3")
	knack.Load(t.Context(), set)
	if entries, _ := os.ReadDir(state); len(entries) > 0 {
		t.Fatalf("loading wrote %v", entries)
	}
	dirs := make([]string, 8)
	var wg sync.WaitGroup
	for i := range dirs {
		wg.Go(func() { dirs[i] = invoke(t, set, "skill-creator", "x").Dir })
	}
	wg.Wait()
	for _, d := range dirs {
		if d == "" || d != dirs[0] {
			t.Fatalf("directories %q", dirs)
		}
	}
	rel, err := filepath.Rel(filepath.Join(state, "knack", "bundled", "v1.2.3"), dirs[0])
	if parts := strings.Split(filepath.ToSlash(rel), "/"); err != nil || len(parts) != 2 || len(parts[0]) < 20 ||
		parts[1] != "skill-creator" {
		t.Errorf("the directory is %s", dirs[0])
	}
	info, err := os.Stat(filepath.Join(dirs[0], "scripts", "init.sh"))
	if err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o700 {
		t.Errorf("init.sh: %v, %v", info, err)
	}
	if err := set.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(dirs[0])); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("not removed: %v", err)
	}
	if a := invoke(t, set, "skill-creator", ""); a.Dir != "" {
		t.Errorf("after Close the skill has a directory: %s", a.Dir)
	}
}

// If extraction fails, the text loads without a base directory, with a Problem.
func TestExtractionFails(t *testing.T) {
	state := t.TempDir()
	if err := os.WriteFile(filepath.Join(state, "knack"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := invoke(t, New(state, ""), "skill-creator", "")
	if a.Dir != "" || strings.Contains(a.Prompt, "Base directory") || !strings.Contains(a.Prompt, "# Make a skill") {
		t.Errorf("%q", a.Prompt)
	}
	if len(a.Problems) != 1 || a.Problems[0].Code != "extraction-failed" ||
		!strings.Contains(a.Problems[0].Message, "in "+state+": ") {
		t.Errorf("problems %v", a.Problems)
	}
}

// Without a state directory nothing is extracted, and no problem is reported.
func TestStateless(t *testing.T) {
	a := invoke(t, New("", ""), "skill-creator", "")
	if a.Dir != "" || len(a.Problems) != 0 || !strings.Contains(a.Prompt, "# Make a skill") {
		t.Errorf("%q, %v", a.Dir, a.Problems)
	}
}

// A closed feature gate hides a skill: it takes no name, nobody sees it, and why says so.
func TestGates(t *testing.T) {
	ctx := t.Context()
	skill := func(name string) *knack.Skill {
		return &knack.Skill{Name: name, Description: "Dreams", Prompt: func(context.Context, knack.Invocation) ([]knack.Part,
			error) {
			return knack.TextPart("Dream."), nil
		}}
	}
	enabled := false
	more := []Skill{
		{Skill: skill("doze"), Feature: "doze"},
		{Skill: skill("night"), IsEnabled: func(context.Context) bool { return enabled }},
	}
	states := func(features map[string]bool) string {
		set := New("", "")
		set.More, set.Features = more, features
		if err := knacktest.TestSource(set, "doze", "night"); err != nil {
			t.Error(err)
		}
		c := knack.Load(ctx, set)
		var all []string
		for _, e := range c.Candidates() {
			if e.Name() == "doze" || e.Name() == "night" {
				all = append(all, e.Name()+" "+string(e.State))
			}
		}
		if p := c.Locations()[0]; p.Kind != knack.Bundled || p.Trust != knack.Trusted {
			t.Errorf("location %+v", p)
		}
		return strings.Join(all, ", ")
	}
	if got := states(nil); got != "doze gated, night gated" {
		t.Error(got)
	}
	if got := states(map[string]bool{"doze": false}); got != "doze gated, night gated" {
		t.Error(got)
	}
	enabled = true
	if got := states(map[string]bool{"doze": true}); got != "doze active, night active" {
		t.Error(got)
	}

	set := New("", "")
	set.More = more
	c := knack.Load(ctx, set)
	if _, err := c.Invoke(ctx, knack.Invocation{Name: "doze"}); err == nil ||
		!strings.Contains(err.Error(), "the feature doze is off") {
		t.Error(err)
	}
	w := c.Why("doze", knack.View{})
	if len(w.Found) != 1 || w.Found[0].Reason != "switched off: the feature doze is off; start with KNACK_FEATURES=doze" || len(w.Problems) != 1 ||
		w.Problems[0].Code != "gated" {
		t.Errorf("%+v", w)
	}
	if l := c.Listing(knack.View{For: knack.ByModel}); strings.Contains(l.Text, "doze") {
		t.Error(l.Text)
	}
	set.Features = map[string]bool{"doze": true}
	if got := invoke(t, set, "doze", "").Prompt; !strings.Contains(got, "Dream.") {
		t.Error(got)
	}
}

func TestLoremIpsum(t *testing.T) {
	set := New("", "")
	for args, want := range map[string]int{"": 1000, "1": 1, "7": 7, "2": 2, "3": 3, "4": 4, "5": 5, "6": 6, "8": 8,
		"9": 9, "10": 10, "11": 11, "13": 13, "5,000": 5000, " 12 ": 12, "20000": 20000} {
		parts, err := loremIpsum(t.Context(), knack.Invocation{Args: args})
		text := parts[0].Text
		words := strings.Fields(text)
		if got := knack.EstimateTokens(text); err != nil || got != want || len(text) != 4*want ||
			strings.Count(text, " ") != len(words)-1 {
			t.Errorf("%q: %d tokens, %d bytes, %v", args, got, len(text), err)
		}
		for i, w := range words[1:] {
			if w == words[i] {
				t.Fatalf("%q: the word %d is repeated", args, i)
			}
		}
	}
	c := knack.Load(t.Context(), set)
	for _, args := range []string{"0", "-1", "x", "500001", "1e3"} {
		_, err := c.Invoke(context.Background(), knack.Invocation{Name: "lorem-ipsum", Args: args})
		var r *knack.Refusal
		if !errors.As(err, &r) || r.Code != knack.RefusedUnread {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestScripts runs the scripts of skill-creator as a model would: create a skill, find it incomplete, fill it in,
// pack it.
func TestScripts(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("sh is not installed")
	}
	dir := t.TempDir()
	scripts, err := filepath.Abs("skills/skill-creator/scripts")
	if err != nil {
		t.Fatal(err)
	}
	run := func(ok bool, script string, args ...string) string {
		t.Helper()
		cmd := exec.Command(sh, append([]string{filepath.Join(scripts, script)}, args...)...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=/usr/bin:/bin"} // without knack: the scripts do not need it
		out, err := cmd.CombinedOutput()
		if (err == nil) != ok {
			t.Fatalf("%s %q: %v\n%s", script, args, err, out)
		}
		return string(out)
	}
	run(false, "init.sh")
	run(false, "init.sh", "Bad_Name")
	run(false, "init.sh", "../x")
	run(true, "init.sh", "my-skill", "skills")
	run(false, "init.sh", "my-skill", "skills")
	md := filepath.Join(dir, "skills", "my-skill", "SKILL.md")
	text, err := os.ReadFile(md)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"scripts/example.sh", "references/example.md", "assets/example.txt"} {
		if info, err := os.Stat(filepath.Join(dir, "skills", "my-skill", filepath.FromSlash(name))); err != nil ||
			info.Size() == 0 {
			t.Errorf("init.sh made no %s: %v", name, err)
		}
	}
	run(true, "validate.sh", "skills/my-skill")
	if err := os.WriteFile(md, []byte(strings.Replace(string(text), "name: my-skill", "name: My Skill", 1)),
		0o600); err != nil {
		t.Fatal(err)
	}
	if out := run(false, "validate.sh", "skills/my-skill"); !strings.Contains(out, ":2: error:") {
		t.Errorf("validate.sh prints %s", out)
	}
	if err := os.WriteFile(md, text, 0o600); err != nil {
		t.Fatal(err)
	}
	run(false, "validate.sh", "skills")
	_, zipErr := exec.LookPath("zip")
	_, pyErr := exec.LookPath("python3")
	if zipErr != nil && pyErr != nil {
		t.Skip("neither zip nor python3 is installed")
	}
	run(true, "package.sh", "skills/my-skill")
	if _, err := os.Stat(filepath.Join(dir, "my-skill.skill")); err != nil {
		t.Error(err)
	}
	run(false, "package.sh", "skills/my-skill")
}

// TestFrom: a host's embedded skills have a base directory with their files.
func TestFrom(t *testing.T) {
	skill := "---\nname: NAME\ndescription: Runs a script.\n---\nRun {baseDir}/scripts/run.sh, or " +
		"${CLAUDE_SKILL_DIR}/scripts/run.sh."
	for _, at := range []string{"", "NAME/", "deep/er/NAME/"} {
		set := From(fstest.MapFS{
			at + "SKILL.md":       {Data: []byte(skill)},
			at + "scripts/run.sh": {Data: []byte("echo hello\n")},
		}, t.TempDir(), "host-1")
		c := knack.Load(t.Context(), set)
		a, err := c.Invoke(t.Context(), knack.Invocation{Name: c.Skills()[0].Name, Args: ""})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(a.Dir, "scripts", "run.sh")
		if data, err := os.ReadFile(file); err != nil || string(data) != "echo hello\n" {
			t.Errorf("%q: %q, %v", at, data, err)
		}
		if n := strings.Count(a.Prompt, filepath.ToSlash(file)); n != 2 {
			t.Errorf("%q: the text names the file %d times, want 2:\n%s", at, n, a.Prompt)
		}
		if err := set.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestGateNames: a feature has the names that other programs use, in any spelling; off wins over on; what a skill
// needs may be found.
func TestGateNames(t *testing.T) {
	type features = map[string]bool
	for _, c := range []struct {
		skill    string
		features features
		found    bool
		want     string // why it is closed
	}{
		{"dream", nil, true, "the feature dream is off; start with KNACK_FEATURES=dream"},
		{"dream", features{"KAIROS": true}, false, ""},
		{"dream", features{"Kairos_Dream": true}, false, ""},
		{"dream", features{"kairos": true, "DREAM": false}, false, "the feature dream is off in settings"},
		{"dream", features{"loop": true}, false, "the feature dream is off; start with KNACK_FEATURES=dream"},
		{"dream", features{"-dream": true}, false, "the feature dream is off; start with KNACK_FEATURES=dream"},
		{"hunter", features{"REVIEW_ARTIFACT": true}, false, ""},
		{"loop", features{"AGENT_TRIGGERS": true}, false, ""},
		{"schedule", features{"AGENT_TRIGGERS": true}, false,
			"the feature remote-triggers is off; start with KNACK_FEATURES=remote-triggers"},
		{"schedule", features{"agentTriggersRemote": true}, false, ""},
		{"schedule", features{"schedule-remote-agents": true}, false, ""},
		{"api", features{"BUILDING_CLAUDE_APPS": true}, false, ""},
		{"run-skill-generator", features{"RUN_SKILL_GENERATOR": true}, false, ""},
		{"nap", nil, true, ""},
		{"nap", nil, false, "there is no bed; KNACK_FEATURES=rest turns the skill on anyway"},
		{"nap", features{"lie_down": false}, true, "the feature rest is off in settings"},
		{"keybindings", features{"keyBindings": true}, false, ""},
	} {
		set := New("", "")
		set.Add("nap", fstest.MapFS{"nap/SKILL.md": {Data: []byte("---\ndescription: D.\n---\nText.")}},
			Gate{Feature: "rest", Aliases: []string{"lie-down"}, Closed: "there is no bed"})
		set.Features = c.features
		set.Found = func(skill string) bool { return c.found && skill == c.skill }
		seen := 0
		for skill, err := range set.Skills(t.Context()) {
			if skill == nil || skill.Name != c.skill {
				continue
			}
			seen++
			if err != nil || skill.FeatureOff != c.want {
				t.Errorf("%s with %v: %q, %v; want %q", c.skill, c.features, skill.FeatureOff, err, c.want)
			}
		}
		if seen != 1 {
			t.Errorf("there are %d skills %s", seen, c.skill)
		}
	}
}

// everything returns the program's skills with every gate open.
func everything(t *testing.T) *Set {
	set := New("", "")
	set.Features = map[string]bool{}
	for _, dir := range skillDirs(t) {
		if name := filepath.Base(dir); !slices.Contains(Names(), name) {
			set.Add(name, fstest.MapFS{name + "/SKILL.md": {Data: textOf(t, filepath.Join(dir, "SKILL.md"))}}, Gate{})
		}
	}
	for _, g := range gates {
		set.Features[g.Feature] = true
	}
	return set
}

func textOf(t *testing.T, file string) []byte {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// All skills together cost little in the listing, and closed gates cost nothing.
func TestListingCost(t *testing.T) {
	cost := func(set *Set) int {
		return knack.EstimateTokens(knack.Load(t.Context(), set).Listing(knack.View{For: knack.ByModel}).Text)
	}
	all, few := cost(everything(t)), cost(New("", ""))
	if all > 1200 || few >= all {
		t.Errorf("%d tokens with all gates open, %d with all closed; at most 1,200 are allowed", all, few)
	}
}

// Each skill has evals, and queries that should and should not bring it up; neither is part of the program.
func TestEvals(t *testing.T) {
	for _, dir := range skillDirs(t) {
		name := filepath.Base(dir)
		var set struct {
			Name  string `json:"skill_name"`
			Evals []struct {
				Prompt, Expected string
				Assertions       []string
			}
		}
		var queries []struct {
			Query  string
			Should *bool `json:"should_trigger"`
		}
		for file, into := range map[string]any{"evals.json": &set, "eval_queries.json": &queries} {
			data, err := os.ReadFile(filepath.Join(dir, "evals", file))
			if err == nil {
				err = json.Unmarshal(data, into)
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if set.Name != name || len(set.Evals) == 0 || len(set.Evals[0].Assertions) == 0 {
			t.Errorf("%s: %+v", name, set)
		}
		yes, no := 0, 0
		for _, q := range queries {
			switch {
			case q.Should == nil || q.Query == "":
				t.Errorf("%s: %+v", name, q)
			case *q.Should:
				yes++
			default:
				no++
			}
		}
		if yes != 8 || no != 8 {
			t.Errorf("%s has %d queries that should bring it up and %d that should not, not 8 and 8", name, yes, no)
		}
		if _, err := files.ReadFile("skills/" + name + "/evals/evals.json"); err == nil {
			t.Errorf("the evals of %s are in the program", name)
		}
	}
}

// TestDetect: verify's script finds how each kind of project is built, tested and run.
func TestDetect(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("sh is not installed")
	}
	script, err := filepath.Abs("skills/verify/scripts/detect.sh")
	if err != nil {
		t.Fatal(err)
	}
	detect := func(dir string) (string, error) {
		cmd := exec.Command(sh, script, dir)
		cmd.Env = []string{"PATH=/usr/bin:/bin"}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"go": {map[string]string{"go.mod": "module m\n", "main.go": "package main\n", "cmd/tool/main.go": "package main\n",
			"cmd/tool/x_test.go": "package main\n", "sub/go.mod": "module sub\n", "sub/main.go": "package main\n"},
			[]string{"go  .  (./go.mod)", "build  go build ./...", "test   go test ./...", "run    go run .\n",
				"run    go run ./cmd/tool", "go  ./sub  (./sub/go.mod)", "!go run ./sub"}},
		"node": {map[string]string{"package.json": "{\n  \"main\": \"app.js\",\n  \"scripts\": {\n    \"dev\": \"vite\",\n" +
			"    \"test\": \"vitest\"\n  }\n}\n", "pnpm-lock.yaml": ""},
			[]string{"node  .", "run    pnpm run dev", "test   pnpm test", "run    node app.js", "pnpm install",
				"!pnpm run build"}},
		"python": {map[string]string{"pyproject.toml": "[tool.pytest]\n",
			"api.py":          "from fastapi import FastAPI\napp = FastAPI()\n",
			"tests/test_x.py": "", "src/pack/__main__.py": ""},
			[]string{"python  .", "test   python3 -m pytest", "run    python3 -m uvicorn api:app --port 0",
				"run    python3 -m pack"}},
		"rust": {map[string]string{"Cargo.toml": "[package]\n", "src/main.rs": "fn main() {}\n", "src/bin/other.rs": ""},
			[]string{"rust  .", "build  cargo build", "run    cargo run --quiet --\n", "cargo run --quiet --bin other --"}},
		"make": {map[string]string{"Makefile": "CC := cc\nall: x\n# run: not this\ntest:\n\ttrue\nserve: all\n",
			"README.md": "# X\n## Running\n"},
			[]string{"make  .  (./Makefile)", "build  make all", "test   make test", "run    make serve", "!make run",
				"read  README.md:2:## Running"}},
	} {
		dir := t.TempDir()
		for file, text := range c.files {
			path := filepath.Join(dir, filepath.FromSlash(file))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
				t.Fatal(err)
			}
		}
		out, err := detect(dir)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		for _, want := range c.want {
			text, not := strings.CutPrefix(want, "!")
			if strings.Contains(out, text) == not {
				t.Errorf("%s: %q in\n%s", name, want, out)
			}
		}
	}
	if out, err := detect(t.TempDir()); err == nil || !strings.Contains(out, "nothing here says how it runs") {
		t.Errorf("%v, %s", err, out)
	}
	if out, err := detect(filepath.Join(t.TempDir(), "none")); err == nil ||
		!strings.Contains(out, "there is no directory") {
		t.Errorf("%v, %s", err, out)
	}
}

// TestOddNames: the scripts take names with blanks, with - in front and with =, and words that are not English.
func TestOddNames(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("there is no POSIX shell")
	}
	skills, err := filepath.Abs("skills")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(file, text string) {
		t.Helper()
		file = filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o777), os.WriteFile(file, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	packageJSON := "{\n  \"scripts\": {\n    \"lint\": \"eslint \\\"src/**/*.{js,ts}\\\" --fix\",\n" +
		"    \"dev\": \"vite\",\n    \"test\": \"vitest\"\n  }, \"main\": \"a.js\"\n}\n"
	for _, d := range []string{"my app", "-d"} {
		write(d+"/package.json", packageJSON)
	}
	write("my go/go.mod", "module m\n")
	write("my go/cmd/x/main.go", "package main\n")
	write("-d/x.py", "import anthropic\n")
	write("-e1e echo done", "one\ntwo\n")
	for _, c := range []struct {
		script string
		args   []string
		ok     bool
		want   []string // "!": not that
	}{
		{"verify/scripts/detect.sh", []string{"."}, true, []string{"node  ./my app  (./my app/package.json)",
			"run    npm run dev", "test   npm test", "go  ./my go", "run    go run ./cmd/x"}},
		{"verify/scripts/detect.sh", []string{"-d"}, true, []string{"node  .  (./package.json)"}},
		{"run-skill-generator/scripts/survey.sh", []string{"-d"}, true, []string{"npm run test: vitest",
			`npm run lint: eslint "src/**/*.{js,ts}" --fix`, "!a.js"}},
		{"api/scripts/calls.sh", []string{"-d"}, true, []string{"x.py:1:import anthropic", "!versions"}},
		{"hunter/scripts/evidence.sh", []string{"-e1e echo done:2:two"}, true,
			[]string{"ok         -e1e echo done:2", "!usage"}},
		{"hunter/scripts/evidence.sh", []string{"-e1e echo done:0:two", "-e1e echo done:1:one\ntwo"}, false,
			[]string{"malformed  -e1e echo done:0", "malformed  -e1e echo done:1", "one line", "!sed"}},
		{"skill-creator/scripts/init.sh", []string{"a-skill", "-d"}, true, []string{"made -d/a-skill"}},
		{"skill-creator/scripts/init.sh", []string{"a-skill", "x=y z"}, true, []string{"made x=y z/a-skill"}},
		{"skill-creator/scripts/validate.sh", []string{"-d/a-skill"}, true, []string{"keeps the specification", "!warning"}},
		{"skill-creator/scripts/validate.sh", []string{"x=y z/a-skill"}, true,
			[]string{"keeps the specification", "!warning"}},
		{"skill-creator/scripts/validate.sh", []string{"zh-skill"}, true, []string{"keeps the specification", "!warning"}},
		{"skill-creator/scripts/validate.sh", []string{"long-skill"}, false, []string{"more than 1,024 characters"}},
	} {
		write("zh-skill/SKILL.md", "---\nname: zh-skill\ndescription: "+strings.Repeat("使用当", 300)+"\n---\nText.\n")
		write("long-skill/SKILL.md", "---\nname: long-skill\ndescription: "+strings.Repeat("使用当", 342)+"\n---\nText.\n")
		cmd := exec.Command(sh, append([]string{filepath.Join(skills, c.script)}, c.args...)...)
		cmd.Dir = dir
		cmd.Env = []string{"PATH=/usr/bin:/bin"}
		out, err := cmd.CombinedOutput()
		if (err == nil) != c.ok {
			t.Errorf("%s %q: %v\n%.400s", c.script, c.args, err, out)
		}
		for _, want := range c.want {
			text, not := strings.CutPrefix(want, "!")
			if strings.Contains(string(out), text) == not {
				t.Errorf("%s %q: %q in\n%.400s", c.script, c.args, want, out)
			}
		}
	}
}

// TestOldGit: batch's script does not call conflicts what an old git cannot try.
func TestOldGit(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("there is no POSIX shell")
	}
	dir := t.TempDir()
	git := "#!" + sh + "\ncase $1 in for-each-ref) echo knack/one ;; rev-list) echo 1 ;; log) echo First ;;\n" +
		"merge-tree) exit $MERGE ;; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "git"), []byte(git), 0o700); err != nil {
		t.Fatal(err)
	}
	for code, want := range map[string]string{"0": "clean  First", "1": "conflicts  First", "129": "not tried: git 2.38"} {
		cmd := exec.Command(sh, "skills/batch/scripts/branches.sh", "main")
		cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "MERGE=" + code}
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "knack/one  1 commits  "+want) {
			t.Errorf("%s: %v, %s", code, err, out)
		}
	}
}
