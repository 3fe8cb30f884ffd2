package agent_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/tools/txtar"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/llm/llmtest"
	"github.com/knack-agent/knack/run/session"
)

// TestDefinitions reads each NAME.md of testdata/definitions.txtar and compares it with NAME.want: the definition,
// then the problems reported to its author.
func TestDefinitions(t *testing.T) {
	const name = "testdata/definitions.txtar"
	ar, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	out := &txtar.Archive{Comment: ar.Comment}
	for _, f := range ar.Files {
		base, ok := strings.CutSuffix(f.Name, ".md")
		if !ok {
			continue
		}
		data := strings.NewReplacer("\\ufeff", "\ufeff", "\\xff", "\xff").Replace(string(f.Data))
		d, problems, ok := agent.ParseDefinition(f.Name, []byte(data), knack.User)
		var b strings.Builder
		if ok {
			b.WriteString(shown(t, d))
		}
		for _, p := range problems {
			fmt.Fprintf(&b, "%s %s (%s)\n", p.Severity, p, p.Code)
		}
		want := ""
		for _, g := range ar.Files {
			if g.Name == base+".want" {
				want = string(g.Data)
			}
		}
		if got := b.String(); got != want && !*update {
			t.Errorf("%s:\n%s\nwant:\n%s", f.Name, got, want)
		}
		out.Files = append(out.Files, f, txtar.File{Name: base + ".want", Data: []byte(b.String())})
	}
	if len(out.Files) < 10 {
		t.Fatalf("only %d files", len(out.Files))
	}
	if *update {
		if err := os.WriteFile(name, txtar.Format(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestHugeDefinition: a file that is too long for a definition is named, and not read.
func TestHugeDefinition(t *testing.T) {
	data := append([]byte("---\nname: a\ndescription: d\n---\n"), bytes.Repeat([]byte("x"), 2<<20)...)
	_, problems, ok := agent.ParseDefinition("a.md", data, knack.User)
	if ok || len(problems) != 1 || problems[0].Code != knack.CodeTooLarge {
		t.Errorf("%v, %v", ok, problems)
	}
}

// shown returns the fields of a definition that are set, one line each.
func shown(t *testing.T, d agent.Definition) string {
	var b strings.Builder
	v := reflect.ValueOf(d)
	for i, f := range reflect.VisibleFields(v.Type()) {
		if f.Name == "Path" || f.Name == "Origin" || v.Field(i).IsZero() {
			continue
		}
		data, err := json.Marshal(v.Field(i).Interface())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s: %s\n", f.Name, data)
	}
	return b.String()
}

// TestDefinitionsJSON: --agents is parsed like the frontmatter of a file.
func TestDefinitionsJSON(t *testing.T) {
	defs, problems, err := agent.ParseDefinitions(`{
		"reviewer": {"description": "Reviews: code", "prompt": "You review.\nWell.", `+
		`"tools": ["Read", "Bash(git log:*)"], "model": "opus", "maxTurns": 3},
		"bare": {}
	}`, knack.Explicit)
	if err != nil || len(defs) != 2 {
		t.Fatalf("%v, %v", defs, err)
	}
	want := agent.Definition{Name: "reviewer", Description: "Reviews: code", Prompt: "You review.\nWell.",
		Tools: []string{"Read", "Bash(git log:*)"},
		Model: "opus", MaxTurns: 3, Origin: knack.Explicit}
	if !reflect.DeepEqual(defs[1], want) {
		t.Errorf("%+v, want %+v", defs[1], want)
	}
	if len(problems) != 1 || problems[0].Code != "description-missing" || !strings.HasPrefix(problems[0].String(),
		"agent bare") {
		t.Errorf("problems: %v", problems)
	}
	for _, bad := range []string{``, `[]`, `{"a": 1}`, `{"a  b": {}}`, `{"": {}}`, `{"a": {"prompt": 3}}`} {
		if _, _, err := agent.ParseDefinitions(bad, knack.Explicit); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// TestLoosens: only a definition of the user or an administrator may loosen the mode.
func TestLoosens(t *testing.T) {
	for kind, want := range map[knack.SourceKind]bool{
		knack.Managed: true, knack.Explicit: true, knack.User: true,
		knack.Project: false, knack.Plugin: false, knack.Bundled: false, knack.Additional: false, "": false,
	} {
		d := agent.Definition{Mode: permission.Bypass, Origin: kind}
		if d.Loosens() != want {
			t.Errorf("%q: %t", kind, !want)
		}
	}
}

// TestAgentTool compares the text of the Agent tool with its golden file.
func TestAgentTool(t *testing.T) {
	m := llmtest.New(llmtest.Reply("ok"))
	a := &agent.Agent{Model: m, Policy: agent.Policy{Gate: open},
		Roster: agent.Roster{New: forks(m, nil), Agents: []agent.Definition{
			{Name: "reviewer", Description: "Reviews\nwhat <others> wrote\u202e", Tools: []string{"Read", "Grep"}},
			{Name: "reviewer", Description: "Another of that name"},
			{Name: "mute", Tools: []string{}},
			agent.GeneralPurpose(),
		}}}
	turn(t, a, session.New(session.Header{}), "go")
	spec := m.Requests()[0].Tools[0]
	got := spec.Description + "\n\n" + string(spec.Schema) + "\n"
	const name = "testdata/agent-tool.txt"
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil || got != string(want) {
		t.Errorf("%v\n%s", err, got)
	}
}

// FuzzDefinition: any untrusted text yields a definition that can be shown and listed, or none, and never more tools
// than were named.
func FuzzDefinition(f *testing.F) {
	ar, err := txtar.ParseFile("testdata/definitions.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range ar.Files {
		if strings.HasSuffix(file.Name, ".md") {
			f.Add(file.Data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		d, problems, ok := agent.ParseDefinition("x/agent.md", data, knack.Project)
		again, _, _ := agent.ParseDefinition("x/agent.md", data, knack.Project)
		if !reflect.DeepEqual(d, again) {
			t.Errorf("parsed twice: %+v and %+v", d, again)
		}
		if !ok {
			if len(problems) == 0 {
				t.Error("ignored without a problem")
			}
			return
		}
		if d.Name == "" || strings.ContainsFunc(d.Name, func(r rune) bool {
			return r < ' ' ||
				strings.ContainsRune("<>()*,/\\", r)
		}) {
			t.Errorf("name %q", d.Name)
		}
		if d.Loosens() || d.MaxTurns < 0 || !utf8.ValidString(d.Prompt) {
			t.Errorf("%+v", d)
		}
		if _, err := permission.ParseMode(string(d.Mode)); err != nil {
			t.Error(err)
		}
		for _, rule := range slices.Concat(d.Tools, d.DisallowedTools) {
			if _, err := permission.ParseRule(rule, ""); err != nil {
				t.Errorf("rule %q: %v", rule, err)
			}
		}
		for _, raw := range []json.RawMessage{d.Hooks, d.MCPServers} {
			if raw != nil && !json.Valid(raw) {
				t.Errorf("not JSON: %s", raw)
			}
		}
	})
}
