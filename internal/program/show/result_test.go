package show

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// TestResultOf: people see one line that says what was done or why it failed, and no text that was written for the
// model.
func TestResultOf(t *testing.T) {
	long := strings.TrimSuffix(strings.Repeat("row\n", 20), "\n")
	for _, c := range []struct {
		name, text, people, details string
		failed                      bool
		want                        string
	}{
		{"read", "package a\n\n[12 more lines. Use offset=10.]", "Read 9 lines of a.go", "", false, "Read 9 lines of a.go"},
		{"edit", "a.go: edits[0].oldText was not found. Read the file again.", "failed: the text to replace is not in a.go",
			"", true, "edit a.go  failed: the text to replace is not in a.go"},
		{"bash", "one\n\nCommand exited with code 2", "exit code 2", `{"status":"Command exited with code 2"}`, true,
			"edit a.go  exit code 2|  one"},
		{"bash", "one\n\nBlocked by the sandbox: x", "partly blocked",
			`{"status":"Blocked by the sandbox: x","refused":["Blocked by the sandbox: ~/x"]}`, false,
			"edit a.go  partly blocked|  Blocked by the sandbox: ~/x|  one"},
		{"bash", "The user declined this call of bash: no", "refused: you declined: no", "", true,
			"edit a.go  refused: you declined: no"},
		{"mcp__s__t", strings.Repeat("the reason is long ", 5), "", "", true,
			"edit a.go  failed|  the reason is long the reason is long the reason is long the reason is long|  the reason is long"},
		{"mcp", long, "", "", false, "edit a.go|  row|  row|  … 15 more lines (key)|  row|  row|  row"},
		{"write", "Wrote a.go (9 bytes).", "Wrote a.go",
			`{"diff":"--- a/a.go\n+++ b/a.go\n@@ -1 +1 @@\n-x\n+y\n","added":1,"removed":1}`,
			false, "Wrote a.go  +1 −1|  1 - x|  1 + y"},
		{"Agent", "Found it.\nIn b.go.", "agent Explore: look (done, 2 requests)",
			`{"name":"Explore","task":"look","log":"x","reason":"done","requests":2,"result":"Found it.\nIn b.go."}`, false,
			"Explore look  2 requests|  report of 2 lines (key)"},
		{"Agent", "Found it.", "agent general-purpose: look (limit, 2 requests, 9 tokens)",
			`{"name":"general-purpose","task":"look","log":"x","reason":"limit","requests":2,"denials":1,` +
				`"usage":{"m":{"output":9}},"cost":0.5,"result":"Found it."}`, false,
			"look  limit  1 call refused · 9 tokens · $0.5000|  report of 1 line (key)"},
		// What a server calls a member has no meaning: it cannot hide its text, show a change or pose as a sub-agent.
		{"mcp__s__t", "all", "", `{"bytes":0,"status":"l"}`, false, "edit a.go|  all"},
		{"mcp__s__t", "all", "", `{"diff":"--- a/a.go\n+++ b/a.go\n@@ -1 +1 @@\n-x\n+y\n","added":1}`, false,
			"edit a.go|  all"},
		{"mcp__s__t", "all", "", `{"name":"Explore","log":"x","reason":"done","result":"Found it."}`, false,
			"edit a.go|  all"},
		{"old", "failed somehow", "", "", true, "edit a.go  failed|  failed somehow"},
	} {
		r := session.Result{ToolResult: llm.ToolResult{Name: c.name, Parts: []llm.Part{llm.Text(c.text)}, IsError: c.failed},
			People: c.people, Details: json.RawMessage(c.details)}
		res := ResultOf(&r, Heading("edit", "a.go"), 80, " (key)")
		got := []string{res.Line.String()}
		for _, l := range res.Rows {
			got = append(got, strings.TrimRight(l.String(), " "))
		}
		if got := strings.Join(got, "|"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestFoldRows: short texts are whole; of long ones both ends are shown, and the rows between are counted.
func TestFoldRows(t *testing.T) {
	rows := make([]styled.Line, 25)
	if n := len(Done.Rows(rows[:24], "")); n != 24 {
		t.Errorf("24 rows became %d", n)
	}
	if out := Done.Rows(rows, " (key)"); len(out) != 19 || out[12].String() != "  … 7 more rows (key)" {
		t.Errorf("25 rows became %d: %q", len(out), out[12].String())
	}
}

// TestLine: a tab reaches to the next multiple of eight cells.
func TestLine(t *testing.T) {
	for in, want := range map[string]string{"": "", "\tx": "        x", "ab\tc": "ab      c", "日本語日\tx": "日本語日        x"} {
		if got := Line(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// TestAllowed: grants without effect are not shown, and of the skill's directory only the name.
func TestAllowed(t *testing.T) {
	a := &session.Activation{Dir: "/home/u/.knack/skills/pdf", Ignored: []string{"Bash(rm:*)"},
		Grants: []string{"Read(//home/u/.knack/skills/pdf/**)", "Bash(rm:*)", "Bash(sh /home/u/.knack/skills/pdf/a.sh:*)"}}
	if got, want := Allowed(a), "Read(/…/pdf/**), Bash(sh …/pdf/a.sh:*)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	a = &session.Activation{Dir: "/my home/pdf",
		Grants: []string{"Read(//my home/pdf/**)", `Bash(sh /my\ home/pdf/a.sh:*)`}}
	if got, want := Allowed(a), "Read(/…/pdf/**), Bash(sh …/pdf/a.sh:*)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestChangedWords: of a line that replaces another, what differs is bold, also after tabs and wide characters; of
// lines without a counterpart nothing is.
func TestChangedWords(t *testing.T) {
	diff := "--- a\n+++ b\n@@ -1,3 +1,4 @@\n \tkept\n-\tsay(\"日本 world\")\n+\tsay(\"日本 knack\")\n \tkept\n+\tnew\n"
	var got []string
	for _, row := range Diff(diff, "a.go", 80) {
		for _, s := range row {
			if s.Style&styled.Bold != 0 {
				got = append(got, s.Text)
			}
			if s.Style&(styled.Added|styled.Removed) != 0 && strings.Contains(s.Text, "kept") {
				t.Errorf("context has a background: %q", s.Text)
			}
		}
	}
	if s := strings.Join(got, " "); s != "world knack" {
		t.Errorf("bold: %q", s)
	}
}

// TestChangedWordsUneven: of unequal numbers of lines, those belong together that have most in common.
func TestChangedWordsUneven(t *testing.T) {
	for diff, want := range map[string]string{
		"@@ -1 +1,3 @@\n-func a() int { return 1 }\n+func a() int {\n+\treturn 2\n+}\n":   "- return 1 }",
		"@@ -1,2 +1,3 @@\n-one := 1\n-two := f(b)\n+one := 1 // first\n+\n+two := f(c)\n": "- b + // first + c",
		"@@ -1 +1,2 @@\n-gone\n+\tquite\n+\tother\n":                                      "",
		"@@ -1,2 +1 @@\n-x = 1\n-x = 2\n+x = 3\n":                                         "- 2 + 3",
	} {
		var got []string
		for _, row := range Diff("--- a\n+++ b\n"+diff, "a.txt", 80) {
			for _, s := range row[1:] {
				if s.Style&styled.Bold != 0 {
					got = append(got, strings.Fields(row[0].Text)[1]+" "+strings.TrimSpace(s.Text))
				}
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q: bold is %q, want %q", diff, s, want)
		}
	}
}

// TestDiffColours: what is removed has the colours of code, as what is added has.
func TestDiffColours(t *testing.T) {
	for _, row := range Diff("--- a\n+++ b\n@@ -1,2 +1,2 @@\n // before\n-return \"a\"\n+return \"b\"\n", "a.go", 80)[1:] {
		if len(row) < 3 || row[1].Style&0xff != styled.Keyword || row[len(row)-1].Style&0xff != styled.String {
			t.Errorf("%q", row)
		}
	}
}

// TestDiffNew: a new file is shown as text, a change with its signs.
func TestDiffNew(t *testing.T) {
	for diff, want := range map[string]string{
		"--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1,2 @@\n+x\n+y\n": "1   x|2   y",
		"--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-x\n+y\n":       "1 - x|1 + y",
	} {
		var got []string
		for _, l := range Diff(diff, "a.txt", 80) {
			got = append(got, l.String())
		}
		if got := strings.Join(got, "|"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := Counts(9, 0).String() + " " + Counts(0, 2).String() + " " + Counts(0, 0).String(); got != "+9 −2 +0" {
		t.Error(got)
	}
}
