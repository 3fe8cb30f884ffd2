package offline

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
)

const listed = `Call it with a name.
<available_skills>
- csv-report: Turn a CSV file into a Markdown report with totals and an SVG bar chart. ` +
	`Use when someone has a CSV or a table of data and wants a report, a summary, statistics or a chart of it.
- changelog: Write or update CHANGELOG.md from the git history since the last tag. ` +
	`Use before a release, or when someone asks what changed since a version.
- ms-office-suite:pdf: Extract text from PDF files, fill in forms (plugin:ms-office-suite)
- review: Review a pull request for bugs
- 周报: 根据本周的提交记录生成工作周报
- bare
</available_skills>`

func TestPick(t *testing.T) {
	skills := listing(&llm.Request{Tools: []llm.ToolSpec{{Name: "Skill", Description: listed}}})
	if len(skills) != 6 || skills[2].name != "ms-office-suite:pdf" || skills[5].name != "bare" {
		t.Fatalf("read %+v", skills)
	}
	for _, c := range []struct {
		prompt, want string
		fits         bool
	}{
		{"make a report with a chart of sales.csv", "csv-report", true},
		{"Summarise this table of data as a report: data/q3.csv", "csv-report", true},
		{"what changed since v1.2.0?", "changelog", true},
		{"please use csv-report on x", "csv-report", true},
		{"run /review now", "review", true},
		{"extract the text of this PDF", "ms-office-suite:pdf", true},
		{"生成本周的工作周报", "周报", true},
		{"写一份周报", "周报", true},
		{"请总结提交记录", "周报", true},
		{"今天天气怎么样", "", false},
		{"what is the weather in Paris", "", false},
		{"rewrite the parser in Rust and benchmark it against the report of last year", "csv-report", false},
		{"", "", false},
	} {
		name, fits := pick(skills, c.prompt)
		if fits != c.fits || fits && name != c.want || c.want == "" && name != "" {
			t.Errorf("%s: %q, %t; want %q, %t", c.prompt, name, fits, c.want, c.fits)
		}
	}
}

// TestIndexMode reads the elements of index mode.
func TestIndexMode(t *testing.T) {
	got := listing(&llm.Request{System: "x <available_skills>\n<skill><name>a&amp;b</name><description>does " +
		"&lt;things&gt;</description><location>/x</location></skill>\n<skill><name>c</name></skill></available_skills>"})
	if !slices.Equal(got, []entry{{"a&b", "does <things>"}, {"c", ""}}) {
		t.Errorf("got %+v", got)
	}
}

func TestArguments(t *testing.T) {
	for prompt, want := range map[string]string{
		"make a report of sales.csv, please.":           "sales.csv",
		"what changed since v1.2?":                      "v1.2",
		`report on "my data.csv" and 'a b'`:             `'my data.csv' 'a b'`,
		"/s  all of  this":                              "all of  this",
		"nothing here":                                  "",
		"look at ~/x/y and key=value (see a_b.txt)":     "~/x/y key=value a_b.txt",
		"it isn't quoted but don't trip over 'unclosed": "",
	} {
		if got := arguments(prompt, "s"); got != want {
			t.Errorf("%s: %q, want %q", prompt, got, want)
		}
	}
}

func TestCommands(t *testing.T) {
	p := Procedure{Arguments: []string{"file", "name"}, Hint: "FILE [NAME]", Dir: "/s k"}
	for _, c := range []struct {
		step []string
		args string
		want string
	}{
		{[]string{"sh", "{baseDir}/x.sh", "{file}", "{name=report}"}, "a.csv", `sh '/s k/x.sh' a.csv report`},
		{[]string{"sh", "{0}", "{1=}"}, "a.csv b", `sh a.csv b`},
		{[]string{"echo", "{1=}"}, "a", `echo ''`},
		{[]string{"echo", "{args}", "x{args}"}, `'a b' c`, `echo 'a b' c 'xa b c'`},
		{[]string{"awk", "{print $1}", "{ {unknown} }", "{"}, "", `awk '{print $1}' '{ {unknown} }' '{'`},
		{[]string{"echo", "{file}"}, `"it's; $(rm -rf /) ` + "`x`" + ` {name} \" "`, `echo 'it'\''s; $(rm -rf /) ` + "`x`" +
			` {name} " '`},
		{[]string{"echo", "{file}"}, "", "error: argument file is missing: give FILE [NAME]"},
		{[]string{"echo", "{2}"}, "a b", "error: argument 2 is missing: give FILE [NAME]"},
	} {
		p.Steps = [][]string{c.step}
		got, err := p.Commands(c.args)
		if err != nil {
			got = []string{"error: " + err.Error()}
		}
		if !slices.Equal(got, []string{c.want}) {
			t.Errorf("%q with %s: %s, want %s", c.step, c.args, got, c.want)
		}
	}
}

func TestParseProcedure(t *testing.T) {
	for in, want := range map[string]string{
		``:                          `null`,
		`null`:                      `null`,
		`[["a","b"],["c",1,true]]`:  `[["a","b"],["c","1","true"]]`,
		`"[[\"a\"]]"`:               `[["a"]]`,
		`[["{baseDir}/run","{0}"]]`: `[["{baseDir}/run","{0}"]]`,
		`[]`:                        `[]`,
		`["a b"]`:                   `error`,
		`[[]]`:                      `error`,
		`[["a",{"b":1}]]`:           `error`,
		`[["{0}","x"]]`:             `error`, // an argument as the command
		`"run this"`:                `error`,
	} {
		steps, err := ParseProcedure(json.RawMessage(in))
		got, _ := json.Marshal(steps)
		if err != nil {
			got = []byte("error")
		}
		if string(got) != want {
			t.Errorf("%s: %s, want %s (%v)", in, got, want, err)
		}
	}
}

// FuzzCommands: whatever the arguments, a real shell sees exactly the intended words, and runs no part of them.
func FuzzCommands(f *testing.F) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		f.Skip("needs sh")
	}
	for _, s := range []string{"a b", "'a b' c", "$(id)", "`id`", "a;b|c&d", "\"x", "it's", "-n", "\\", "{args}", "*", "~",
		"é\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, args string) {
		if strings.Contains(args, "\x00") || len(args) > 1000 {
			t.Skip()
		}
		words := split(args)
		lines, err := Procedure{Steps: [][]string{{"printf", "%s\\0", "x", "{args}"}}}.Commands(args)
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(sh, "-c", lines[0]).Output()
		if err != nil {
			t.Fatalf("%s: %v", lines[0], err)
		}
		if want := strings.Join(append([]string{"x"}, words...), "\x00") + "\x00"; string(out) != want {
			t.Errorf("%s: %q, want %q", lines[0], out, want)
		}
	})
}

// conversation runs the model with tools that answer from a table, until it makes no more calls, and returns all its
// text.
func conversation(t *testing.T, m llm.Model, prompt string, active string,
	tools map[string]llm.ToolResult) (text string, called []string) {
	t.Helper()
	req := &llm.Request{Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text(prompt)}}}}
	for _, name := range strings.Fields(active) {
		spec := llm.ToolSpec{Name: name}
		if name == "Skill" {
			spec.Description = listed
		}
		req.Tools = append(req.Tools, spec)
	}
	for range 10 {
		var done *llm.Response
		for ev, err := range m.Stream(t.Context(), req) {
			if err != nil {
				t.Fatal(err)
			}
			text += ev.Text
			if ev.Done != nil {
				done = ev.Done
			}
		}
		req.Messages = append(req.Messages, done.Message)
		if done.Stop != llm.ToolUse {
			return text, called
		}
		c := done.Message.Parts[len(done.Message.Parts)-1].Call
		called = append(called, c.Name+string(c.Input))
		res := tools[c.Name]
		res.ID = c.ID
		req.Messages = append(req.Messages, llm.Message{Role: llm.User, Parts: []llm.Part{{Result: &res}}})
		if c.Name == "Skill" && !res.IsError {
			req.Messages = append(req.Messages, llm.Message{Role: llm.User, Parts: []llm.Part{llm.Text(
				"<command-message>The \"csv-report\" skill is " +
					"loading</command-message>\n<command-name>csv-report</command-name>\n<command-args>sales.csv</command-args>\n\n" +
					"Base directory for this skill: /p/csv-report\n\n# CSV\n\nDo it.")}})
		}
	}
	t.Fatal("the model does not stop")
	return "", nil
}

func ok(text string) llm.ToolResult   { return llm.ToolResult{Parts: []llm.Part{llm.Text(text)}} }
func fail(text string) llm.ToolResult { r := ok(text); r.IsError = true; return r }

func TestConversations(t *testing.T) {
	two := New(func(string) (Procedure, error) {
		return Procedure{Steps: [][]string{{"sh", "{baseDir}/a.sh", "{0}"}, {"true"}}}, nil
	})
	for _, c := range []struct {
		name   string
		model  llm.Model
		prompt string
		active string
		tools  map[string]llm.ToolResult
		calls  []string
		say    []string
	}{
		{"all", two, "chart of sales.csv as a report", "Skill bash",
			map[string]llm.ToolResult{"Skill": ok("Launching skill: csv-report"), "bash": ok("fine\n")},
			[]string{`Skill{"args":"sales.csv","skill":"csv-report"}`, `bash{"command":"sh /p/csv-report/a.sh sales.csv"}`,
				`bash{"command":"true"}`},
			[]string{"csv-report ran offline: 2 of 2 steps", "1. sh /p/csv-report/a.sh sales.csv\n    fine\n",
				"2. true\n    fine\n"}},
		{"a step fails", two, "chart of sales.csv as a report", "Skill Bash",
			map[string]llm.ToolResult{"Skill": ok("Launching"), "Bash": fail("exit 1")},
			[]string{`Skill{"args":"sales.csv","skill":"csv-report"}`, `Bash{"command":"sh /p/csv-report/a.sh sales.csv"}`},
			[]string{"0 of 2 steps", "exit 1", "Step 1 failed; the rest was not run."}},
		{"refused", two, "chart of sales.csv as a report", "Skill bash",
			map[string]llm.ToolResult{"Skill": fail("not allowed: Skill(csv-report)")},
			[]string{`Skill{"args":"sales.csv","skill":"csv-report"}`}, []string{"not allowed: Skill(csv-report)"}},
		{"no procedure", New(nil), "chart of sales.csv as a report", "Skill bash",
			map[string]llm.ToolResult{"Skill": ok("Launching")},
			[]string{`Skill{"args":"sales.csv","skill":"csv-report"}`}, []string{"declares no procedure", "    # CSV",
				"give knack a language model"}},
		{"bad procedure", New(func(string) (Procedure, error) { return Procedure{}, errors.New("step 1 is empty") }),
			"chart of sales.csv as a report", "Skill bash",
			map[string]llm.ToolResult{"Skill": ok("Launching")}, []string{`Skill{"args":"sales.csv","skill":"csv-report"}`},
			[]string{"cannot be used: step 1 is empty"}},
		{"no bash", two, "chart of sales.csv as a report", "Skill", map[string]llm.ToolResult{"Skill": ok("Launching")},
			[]string{`Skill{"args":"sales.csv","skill":"csv-report"}`}, []string{"needs the bash tool"}},
		{"nothing fits", two, "rewrite the parser in Rust and benchmark it against the report", "Skill bash", nil, nil,
			[]string{"the closest is csv-report", "/csv-report"}},
		{"nothing near", two, "hello?", "Skill bash", nil, nil, []string{"None of the 6 skills fits: csv-report, changelog"}},
		{"nothing listed", two, "hello", "bash", nil, nil, []string{"No skill is listed here."}},
		{"a fork reports", two, "chart of sales.csv as a report", "Skill bash",
			map[string]llm.ToolResult{"Skill": fail("the fork's report")},
			[]string{`Skill{"args":"sales.csv","skill":"csv-report"}`}, []string{"the fork's report"}},
	} {
		text, calls := conversation(t, c.model, c.prompt, c.active, c.tools)
		if !slices.Equal(calls, c.calls) {
			t.Errorf("%s: called %q, want %q", c.name, calls, c.calls)
		}
		for _, s := range c.say {
			if !strings.Contains(text, s) {
				t.Errorf("%s: the text is %q, want %q in it", c.name, text, s)
			}
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range New(nil).Stream(ctx, &llm.Request{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}

func BenchmarkPick(b *testing.B) {
	var skills []entry
	for _, e := range listing(&llm.Request{System: listed}) {
		for i := range 200 {
			skills = append(skills, entry{e.name + strings.Repeat("x", i%7), e.text})
		}
	}
	for b.Loop() {
		pick(skills, "make a report with a chart of the sales")
	}
}
