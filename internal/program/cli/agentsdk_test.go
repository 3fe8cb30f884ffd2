//go:build unix

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/internal/leaf/nodetest"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestPeerAgentSDK runs the Agent SDK from npm with knack as its program. .ci/run installs the packages and sets
// their location.
func TestPeerAgentSDK(t *testing.T) {
	modules := nodetest.Dir(t)
	node := nodetest.Program(modules)
	bash := func(command string) llmtest.Answer { return llmtest.Use("bash", map[string]any{"command": command}) }
	var twenty, burst []llmtest.Answer
	for i := range 20 {
		twenty = append(twenty, llmtest.Answer{When: fmt.Sprintf("^message %d$", i+1), Text: fmt.Sprintf("answer %d", i+1)})
		burst = append(burst, llmtest.Reply("seen"))
	}
	for _, c := range []struct {
		name    string
		some    bool // not all answers must be used
		answers []llmtest.Answer
	}{
		{"tools", false, []llmtest.Answer{
			bash("touch denied"), {Want: []string{"not this one"}, Calls: bash("touch one").Calls}, bash("touch three"),
			bash("touch three"),
			llmtest.Use("write", map[string]any{"path": "four", "content": "x"}),
			{Want: []string{"no files"}, Text: "all done"},
		}},
		{"redact", false, []llmtest.Answer{bash("echo hunter2"), {Want: []string{"REDACTED"}, Text: "done"}}},
		{"blocks", false, []llmtest.Answer{
			{Want: []string{"PLAINDOC", "INNERDOC", "https://example.com/a.pdf", "FOUNDTEXT"}, Text: "read"},
			{When: "^go on$", Text: "on it"}}},
		{"declined", false, []llmtest.Answer{bash("touch made")}},
		{"headless", false, []llmtest.Answer{bash("touch made"), llmtest.Reply("no")}},
		{"server", false, []llmtest.Answer{
			llmtest.Use("mcp__calc__add", map[string]any{"a": 2, "b": 3}), {Want: []string{"sum 5"}, Text: "five"},
			llmtest.Use("mcp__calc__add", map[string]any{"a": 2, "b": 3}), llmtest.Reply("no"),
		}},
		{"elicit", false, []llmtest.Answer{
			llmtest.Use("mcp__forms__form", map[string]any{}), {Want: []string{"accept Ann"}, Calls: bash("ls").Calls},
			{Want: []string{"elsewhere: ls"}, Text: "done"},
			llmtest.Use("mcp__forms__form", map[string]any{}), {Want: []string{"decline nobody"}, Text: "declined"},
		}},
		{"odd", true, []llmtest.Answer{
			llmtest.Reply("homeless"), {Want: []string{"APPENDED WORDS"}, Text: "plain"},
			bash("touch thrown"), {Want: []string{"my fault"}, Text: "no"},
			bash("true"), bash("true"), bash("echo $$ > pid; exec sleep 1000"),
		}},
		{"interrupt", false, []llmtest.Answer{bash("sleep 1000"), {When: "go on", Text: "on it"}}},
		{"resume", false, []llmtest.Answer{
			llmtest.Reply("noted"), {Want: []string{"remember 7"}, Text: "seven"},
			{Want: []string{"remember 7"}, Text: "seven again"},
			llmtest.Reply("new"), {Want: []string{"new"}, Text: "this one"},
		}},
		{"agents", false, []llmtest.Answer{
			llmtest.Use("Agent", map[string]any{"agent": "reviewer", "prompt": "look"}),
			{Want: []string{"You review code."}, Text: "fine"}, {Want: []string{"fine"}, Text: "reviewed"},
		}},
		{"skills", false, []llmtest.Answer{
			{Want: []string{"greet: Greets people"}, Calls: llmtest.Use("Skill", map[string]any{"skill": "greet"}).Calls},
			llmtest.Reply("hello"),
		}},
		{"schema", false, []llmtest.Answer{
			{Want: []string{"JSON Schema"}, Text: `{"count": 3}`}, llmtest.Reply("three"), llmtest.Reply("three"),
			llmtest.Reply("three"), llmtest.Reply("three"), llmtest.Reply("three"),
		}},
		{"stream", false, twenty},
		{"burst", true, burst},
		{"rewind", false, []llmtest.Answer{
			llmtest.Use("write", map[string]any{"path": "made.txt", "content": "one\n"}), llmtest.Reply("written")}},
		{"control", false, []llmtest.Answer{{When: "which model", Text: "this one"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := llmtest.NewServer(c.answers...)
			defer server.Close()
			d := newFixture(t, server)
			d.env = append(d.env, "KNACK="+knackPath(t), "KNACK_NPM="+modules)
			runScript(t, d, node, "testdata/agentsdk.mjs", c.name)
			if n := server.Left(); n > 0 && !c.some {
				t.Errorf("%d answers were not used", n)
			}
			if r := server.Refused(); len(r) > 0 {
				t.Errorf("refused: %q", r)
			}
		})
	}
}

// TestPeerDeclarations runs scenarios that were written from the declarations of the Agent SDK.
func TestPeerDeclarations(t *testing.T) {
	modules := nodetest.Dir(t)
	node := nodetest.Program(modules)
	use, reply := llmtest.Use, llmtest.Reply
	bash := func(command string) llmtest.Answer { return use("bash", map[string]any{"command": command}) }
	waits := use("bash", map[string]any{"command": "until [ -e go ]; do sleep 0.02; done", "background": true})
	task := use("Agent", map[string]any{"agent": "reviewer", "prompt": "SUBTASK", "description": "look"})
	give := func(count any) llmtest.Answer { return use("StructuredOutput", map[string]any{"count": count}) }
	want := func(text string, a llmtest.Answer) llmtest.Answer { a.Want = []string{text}; return a }
	when := func(text string, a llmtest.Answer) llmtest.Answer { a.When = text; return a }
	read := use("read", map[string]any{"path": "a.txt"})
	for name, answers := range map[string][]llmtest.Answer{
		"command": {waits, reply("started"), want("Background command 1", reply("saw the end"))},
		"agent": {task, when("in the background", reply("started")),
			when("^SUBTASK$", bash("until [ -e go ]; do sleep 0.02; done; echo released")),
			when("released", reply("sub answer")),
			want("sub answer", reply("saw the end"))},
		"move": {bash("touch runs; until [ -e go ]; do sleep 0.02; done"), want("to the background", reply("moved")),
			want("Background command 1", reply("ended"))},
		"lead":       {want("You REVIEW", reply("hi"))},
		"choice":     {reply("one"), reply("two")},
		"structured": {give("x"), give(3), give("x"), reply("none"), give("x"), give("x"), give("x")},
		"store": {bash("echo hi"), reply("noted"),
			want("remember BLUE", reply("blue"))},
		"export":     {bash("echo hi"), reply("noted")},
		"stricter":   {use("mcp__calc__add", map[string]any{"a": 1}), bash("touch made"), reply("no")},
		"hooks":      {task, read, reply("sub answer"), reply("done")},
		"hookEvents": {bash("true"), reply("done"), bash("true"), reply("done")},
		"silent":     {want("SILENT", reply("heard"))},
		"typed":      {want("Greet Ann", reply("hello"))},
		"verbatim":   {want("/greet Ann", reply("as it is"))},
		"edits": {read, use("edit", map[string]any{"path": "a.txt", "old_string": "one", "new_string": "uno"}),
			use("write", map[string]any{"path": "n.txt", "content": "x\n"}), reply("done")},
		"plugin":   {reply("hi")},
		"plan":     {want("PLANWORDS", reply("a plan"))},
		"progress": {bash("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.3; done"), reply("done")},
		"restrict": {bash("touch made"), reply("no"), reply("hi"), bash("touch made"), reply("no"), reply("asked"),
			reply("one"), reply("two"), want("ONE", reply("three"))},
		"interruptAll": {waits, bash("touch runs; exec sleep 1000"), waits, bash("touch runs; exec sleep 1000")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := llmtest.NewServer(answers...)
			defer server.Close()
			d := newFixture(t, server)
			d.file(t, "a.txt", "text\n")
			d.env = append(d.env, "KNACK="+knackPath(t), "KNACK_NPM="+modules)
			runScript(t, d, node, "testdata/agentsdk2.mjs", name)
			if n := server.Left(); n > 0 {
				t.Errorf("%d answers were not used", n)
			}
			if r := server.Refused(); len(r) > 0 {
				t.Errorf("refused: %q", r)
			}
		})
	}
}

// TestPeerBoth runs scenarios that also ran with the real program. They bring their own model server:
//
//	CLAUDE=1 KNACK=…/claude KNACK_NPM=… node testdata/agentsdk3.mjs NAME…
func TestPeerBoth(t *testing.T) {
	modules := nodetest.Dir(t)
	node := nodetest.Program(modules)
	for _, name := range []string{"suggest", "accept", "fallback", "resource", "servers", "failures", "start", "absent",
		"store", "context", "started", "blocked", "before", "pieces", "modes", "limits", "members", "settings", "agents",
		"rewritten", "matchers", "broken", "order", "meanwhile", "pending", "planned", "question", "patterns", "delegates",
		"prompts", "surroundings", "outcomes", "attempts", "batch", "stopped", "changing", "branch", "ended", "responses",
		"images", "project", "ends", "offers", "withheld"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newFixture(t, serve(t))
			d.env = append(d.env, "KNACK="+knackPath(t), "KNACK_NPM="+modules)
			runScript(t, d, node, "testdata/agentsdk3.mjs", name)
		})
	}
}

// TestPeerFlags: every flag that the Agent SDK passes is a flag of knack, or has a reason why it is not.
func TestPeerFlags(t *testing.T) {
	source, err := os.ReadFile(filepath.Join(nodetest.Dir(t), "node_modules/@anthropic-ai/claude-agent-sdk/sdk.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	// The names of the functions are those of the minified file; the package is pinned.
	passed := regexp.MustCompile(`(?:\bet\(|\bsb\(|ne\.push\()"--([A-Za-z-]+)`).FindAllSubmatch(source, -1)
	if len(passed) < 30 {
		t.Fatalf("only %d flags were found", len(passed))
	}
	docs, err := os.ReadFile("../../../docs/agent-sdk.md")
	if err != nil {
		t.Fatal(err)
	}
	flags := rootCommand(nil).Flags()
	for _, m := range passed {
		name := string(kebab(nil, string(m[1])))
		if known := flags.Lookup(name) != nil; known == (withoutEffect[name] != "" || refusedFlags[name] != "") {
			t.Errorf("--%s: a flag of knack: %v, with effect: %v, refused: %q", name, known, withoutEffect[name] == "",
				refusedFlags[name])
		} else if !known && !strings.Contains(string(docs), "`--"+name+"`") {
			t.Errorf("--%s is not in docs/agent-sdk.md", name)
		}
	}
}

// TestPythonTransport drives knack in the way that the Agent SDK for Python documents.
func TestPythonTransport(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	server := serve(t, llmtest.Use("bash", map[string]any{"command": "touch made"}), llmtest.Reply("touched"),
		llmtest.Reply("the second"))
	d := newFixture(t, server)
	runScript(t, d, python, "testdata/agentsdk.py", knackPath(t))
	if _, err := os.Stat(filepath.Join(d.dir, "made")); err != nil {
		t.Error(err)
	}
}

// TestPeerPythonSDK runs the Agent SDK for Python with knack as its program.
func TestPeerPythonSDK(t *testing.T) {
	packages := os.Getenv("KNACK_PYTHON_SDK")
	if packages == "" {
		t.Skip("KNACK_PYTHON_SDK is not set to directories with claude_agent_sdk and its imports")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	bash := func(command string) llmtest.Answer { return llmtest.Use("bash", map[string]any{"command": command}) }
	server := serve(t,
		llmtest.Answer{Want: []string{"SYSTEM WORDS"}, Calls: bash("touch denied").Calls},
		llmtest.Answer{Want: []string{"not this one"}, Calls: bash("touch one").Calls}, bash("touch three"),
		bash("touch three"),
		llmtest.Reply("all done"), bash("sleep 1000"), llmtest.Reply("on it"),
		llmtest.Answer{Want: []string{"touch three"}, Text: "remembered"}, llmtest.Answer{Want: []string{"touch three"},
			Text: "remembered"},
		llmtest.Answer{Want: []string{"JSON Schema"}, Text: `{"count": 3}`},
	)
	d := newFixture(t, server)
	d.env = append(d.env, "PYTHONPATH="+packages)
	runScript(t, d, python, "testdata/pythonsdk.py", knackPath(t))
	if r := server.Refused(); len(r) > 0 {
		t.Errorf("refused: %q", r)
	}
}

// TestPeerSkillCreator runs the unchanged evaluation script of the public skill skill-creator, with a program named
// claude that runs knack.
func TestPeerSkillCreator(t *testing.T) {
	skill := os.Getenv("KNACK_SKILL_CREATOR")
	if skill == "" {
		t.Skip("KNACK_SKILL_CREATOR is not set to the folder of the skill")
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	server := serve(t,
		llmtest.Answer{When: "pdf form", Take: map[string]string{"name": "(pdfs-skill-[0-9a-f]+)"},
			Calls: []llmtest.Call{{Name: "Skill", Input: map[string]any{"skill": "${name}"}}}},
		llmtest.Answer{When: "weather", Text: "Sunny."},
	)
	d := newFixture(t, server)
	d.file(t, "pdfs/SKILL.md", "---\nname: pdfs\ndescription: Fills in PDF forms\n---\nFill in.\n")
	d.file(t, "set.json",
		`[{"query": "fill in this pdf form", "should_trigger": true}, {"query": "how is the weather", "should_trigger": `+
			`false}]`)
	d.file(t, "bin/claude", "#!/bin/sh\nexec '"+knackPath(t)+"' --trust \"$@\"\n")
	if err := os.Chmod(filepath.Join(d.dir, "bin/claude"), 0o755); err != nil {
		t.Fatal(err)
	}
	d.env = append(d.env, "PATH="+filepath.Join(d.dir, "bin")+":"+os.Getenv("PATH"), "PYTHONPATH="+skill)
	out := runScript(t, d, python, "-m", "scripts.run_eval", "--eval-set", "set.json", "--skill-path", "pdfs",
		"--runs-per-query", "1", "--num-workers", "1", "--timeout", "60")
	var report struct {
		Summary struct{ Total, Passed int }
	}
	if err := json.Unmarshal(out, &report); err != nil || report.Summary.Total != 2 || report.Summary.Passed != 2 {
		t.Errorf("%v\n%s", err, out)
	}
}

// knackPath returns the path of the program.
func knackPath(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("knack")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// runScript runs a program, which must succeed, and returns its output. It replaces the names of testdata files among
// the arguments by their paths.
func runScript(t *testing.T, d fixture, program string, args ...string) []byte {
	t.Helper()
	for i, a := range args {
		if rest, ok := strings.CutPrefix(a, "testdata/"); ok {
			path, err := filepath.Abs(filepath.Join("testdata", rest))
			if err != nil {
				t.Fatal(err)
			}
			args[i] = path
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute) // stops a test that hangs
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = d.dir, d.env
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%v\n%s%s", err, out, errs.String())
	}
	return out
}

// TestPeerTable: the page on the Agent SDK has a row for every option, message and request that the SDK declares.
func TestPeerTable(t *testing.T) {
	declared, err := os.ReadFile(filepath.Join(nodetest.Dir(t), "node_modules/@anthropic-ai/claude-agent-sdk/sdk.d.ts"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../docs/agent-sdk.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Every option, message and request")
	body := func(head string) string {
		_, rest, found := strings.Cut(string(declared), head)
		if !found {
			t.Fatalf("%q is not declared", head)
		}
		text, _, _ := strings.Cut(rest, "\n};")
		return text
	}
	names := []string{}
	for _, m := range regexp.MustCompile(`(?m)^    ([a-zA-Z]+)\??:`).FindAllStringSubmatch(
		body("export declare type Options = {"), -1) {
		names = append(names, "`"+m[1]+"`")
	}
	members := regexp.MustCompile(`(?m)^    (type|subtype): '([a-z_]+)'`)
	kinds := func(union string) {
		list, _, _ := strings.Cut(body(union), ";")
		for _, name := range strings.Split(list, " | ") {
			name = strings.TrimSpace(name)
			if name == "SDKResultMessage" { // itself a union
				names = append(names, "`result`")
				continue
			}
			of := map[string]string{}
			for _, m := range members.FindAllStringSubmatch(body("declare type "+name+" = {"), -1) {
				of[m[1]] = m[2]
			}
			switch {
			case of["type"] == "system":
				names = append(names, "`system`/`"+of["subtype"]+"`")
			case of["type"] != "":
				names = append(names, "`"+of["type"]+"`")
			default:
				names = append(names, "`"+of["subtype"]+"`")
			}
		}
	}
	kinds("export declare type SDKMessage = ")
	kinds("declare type SDKControlRequestInner = ")
	if len(names) < 140 {
		t.Fatalf("only %d names were found", len(names))
	}
	for _, name := range names {
		if !strings.Contains(table, name) {
			t.Errorf("%s has no row", name)
		}
	}
	const testName = `(?m)^func (Test\w+)`
	tests := map[string]bool{"all": true}
	for pattern, name := range map[string]string{"testdata/agentsdk*.mjs": `(?m)^\tasync (\w+)\(`,
		"*_test.go": testName, "../control/*_test.go": testName, "../../../run/mcp/*_test.go": testName} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range regexp.MustCompile(name).FindAllSubmatch(text, -1) {
				tests[string(m[1])] = true
			}
		}
	}
	rows, _, _ := strings.Cut(table, "## What was tested")
	for line := range strings.Lines(rows) {
		cells := strings.Split(strings.TrimSuffix(strings.TrimSpace(line), "|"), " | ")
		if !strings.HasPrefix(line, "| `") || len(cells) < 3 {
			continue
		}
		for name := range strings.SplitSeq(strings.TrimSpace(cells[len(cells)-1]), ", ") {
			if !tests[name] {
				t.Errorf("%s: there is no test %q", cells[0], name)
			}
		}
	}
}
