package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/pflag"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/internal/program/control"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/sources"
)

func topic(t *testing.T, name string) string {
	t.Helper()
	var out, errs strings.Builder
	if code := run(t.Context(), []string{"help", name}, strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatalf("help %s: %d, %s", name, code, errs.String())
	}
	return out.String()
}

// mentions reports whether a text contains a word as a whole word.
func mentions(text, word string) bool {
	return regexp.MustCompile(`(^|[^a-zA-Z_-])` + regexp.QuoteMeta(word) + `([^a-zA-Z_-]|$)`).MatchString(text)
}

// goldenTopic compares a help page with its golden file, which -update rewrites, and returns the page.
func goldenTopic(t *testing.T, name string) string {
	t.Helper()
	golden := "testdata/help-" + name + ".golden"
	got := topic(t, name)
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the page differs from %s (-update rewrites it):\n%s", golden, got)
	}
	return got
}

// TestHelpTools: the page names every tool.
func TestHelpTools(t *testing.T) {
	page := goldenTopic(t, "tools")
	for _, name := range part.KnownTools().AllNames() {
		if !mentions(page, name) {
			t.Errorf("no %s", name)
		}
	}
}

// TestHelpCommands compares the help with the table of commands.
func TestHelpCommands(t *testing.T) {
	goldenTopic(t, "commands")
	for _, c := range commandTable() {
		if c.Description == "" || c.Kind != "command" || len(c.Name+c.Hint)+len(c.Description) > 76 {
			t.Errorf("the row of %s is missing, incomplete or wider than 80 columns", c.Name)
		}
	}
}

// TestHelpKeys compares the list of keys with the printed page.
func TestHelpKeys(t *testing.T) {
	got := goldenTopic(t, "keys")
	for line := range strings.Lines(got) {
		if utf8.RuneCountInString(line) > 81 {
			t.Errorf("a line is wider than 80 columns: %s", line)
		}
	}
}

// TestHelpFormats compares the help with the types that are printed, and with the messages of stream-json.
func TestHelpFormats(t *testing.T) {
	text := topic(t, "formats")
	keys := map[string]string{} // with what has them
	for _, v := range []any{command.SkillInfo{}, command.SkillOrigin{}, knack.Problem{},
		command.WhyInfo{}, command.FindingInfo{}, command.SearchedLocation{}, command.HistoryEvent{}, budgetJSON{},
		budgetLine{}} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			keys[key] = fmt.Sprintf("%T", v)
		}
	}
	schema, err := control.JSONSchema()
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(schema, &s); err != nil {
		t.Fatal(err)
	}
	for name, message := range s.Defs {
		addKeys(keys, name, message)
	}
	if keys["parent_tool_use_id"] == "" || keys["disallowedTools"] == "" {
		t.Error("the schema has no keys of messages, or none of the objects in them")
	}
	for key, from := range keys {
		if key != "" && key != "-" && key != "subtype" && !mentions(text, key) {
			t.Errorf("%s: %s is not in help formats", from, key)
		}
	}
}

// addKeys adds the keys of the objects that a schema describes.
func addKeys(keys map[string]string, from string, s *jsonschema.Schema) {
	if s == nil {
		return
	}
	for key, value := range s.Properties {
		keys[key] = from
		addKeys(keys, from+"."+key, value)
	}
	addKeys(keys, from, s.Items)
	addKeys(keys, from, s.AdditionalProperties)
}

// TestHelpSkills compares the help with the frontmatter keys, the skill folders and the states.
func TestHelpSkills(t *testing.T) {
	text := topic(t, "skills")
	dir := t.TempDir()
	keys, _, ok := strings.Cut(text[strings.Index(text, "\nKeys of the frontmatter\n"):], "Other keys")
	if !ok {
		t.Fatal("no keys")
	}
	var read []string
	known := regexp.MustCompile(`(?m)^  ([a-z_-]+)(: fork|, effort|, compatibility, metadata, version, author)?( |$)`)
	for _, word := range known.FindAllStringSubmatch(keys, -1) {
		read = append(read, word[1])
		for more := range strings.SplitSeq(strings.Trim(word[2], ", "), ", ") {
			if more != "" && !strings.HasPrefix(more, ":") {
				read = append(read, more)
			}
		}
	}
	if len(read) < 20 {
		t.Fatalf("keys %q", read)
	}
	// If a key is known, a misspelling of it gets no suggestion for another key.
	for _, key := range read {
		path := filepath.Join(dir, "x", "SKILL.md")
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("---\ndescription: X\n"+strings.ToUpper(key)+": 1\n---\nText.\n"),
			0o666); err != nil {
			t.Fatal(err)
		}
		known := false
		for _, p := range knack.Load(context.Background(), knack.Dir(dir,
			knack.Origin{Kind: knack.User, Trust: knack.Trusted})).Problems() {
			known = known || p.Code == "unknown-key" && strings.Contains(p.Hint, key) || key == "description"
		}
		if !known {
			t.Errorf("%s is not a known key", key)
		}
	}
	for _, s := range []knack.SkillState{knack.Active, knack.Conditional, knack.Shadowed, knack.Duplicate, knack.FeatureOff,
		knack.NotTrusted, knack.Off, knack.NameOnly, knack.UserOnly, knack.Broken} {
		if !mentions(text, string(s)) {
			t.Errorf("the state %s is not in help skills", s)
		}
	}
	home := filepath.Join(dir, "home")
	for _, src := range sources.Default(t.Context(), filepath.Join(home, "repo"), sources.Options{Home: home}) {
		p := knack.Load(t.Context(), src).Locations()[0]
		rel, err := filepath.Rel(home, p.Path)
		if err != nil || p.Kind == knack.Managed || p.Kind == knack.Legacy {
			continue // described in other words
		}
		rel = strings.TrimPrefix(filepath.ToSlash(rel), "repo/")
		if rel == ".config/knack/skills" {
			rel = "$XDG_CONFIG_HOME/knack/skills"
		}
		if !strings.Contains(text, rel) && rel != ".claude/skills" {
			t.Errorf("%s is not in help skills", rel)
		}
		if !mentions(text, string(p.Kind)) {
			t.Errorf("the kind %s is not in help skills", p.Kind)
		}
	}
	for _, dir := range sources.ManagedDirs("linux") {
		if !strings.Contains(text, dir) {
			t.Errorf("%s is not in help skills", dir)
		}
	}
}

// TestHelpHooks compares the help with the events, and with the fields of a hook and of its answer.
func TestHelpHooks(t *testing.T) {
	text := topic(t, "hooks")
	for _, e := range hook.Events() {
		if !mentions(text, string(e)) {
			t.Errorf("the event %s is not in help hooks", e)
		}
	}
	for _, word := range []string{"matcher", "type", "command", "args", "url", "prompt", "if", "timeout", "once", "async",
		"required", "path", "continue", "stopReason", "systemMessage", "decision", "reason", "permissionDecision",
		"updatedInput", "additionalContext", "updatedToolOutput",
		"updatedMCPToolOutput", "updatedPrompt", "answer", "summary", "ask", "status", "notify", "watchPaths", "action",
		"content"} {
		if !mentions(text, word) {
			t.Errorf("%s is not in help hooks", word)
		}
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[hook.Input]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && !mentions(text, name) {
			t.Errorf("the field %s of the input is not in help hooks", name)
		}
	}
}

// TestHelpHosts: the flags of hosts are on a page of their own, and no help shows how pflag writes a value that may be
// left out.
func TestHelpHosts(t *testing.T) {
	var help, errs strings.Builder
	if code := run(t.Context(), []string{"--help"}, strings.NewReader(""), &help, &errs); code != 0 {
		t.Fatal(errs.String())
	}
	hosts := topic(t, "hosts")
	for _, g := range flagGroups {
		for _, name := range g.flags {
			page, other := help.String(), hosts
			if g.title == hostFlags {
				page, other = hosts, page
			}
			defined := regexp.MustCompile(`(?m)^ {2,6}(-., )?--` + name + `[ \[\n]`)
			if !defined.MatchString(page) || defined.MatchString(other) {
				t.Errorf("--%s is on the wrong page", name)
			}
		}
	}
	if text := help.String() + hosts; strings.Contains(text, `[="`) || !strings.Contains(text, "--debug[=TOPICS] ") {
		t.Errorf("the help shows what a flag without a value means:\n%s", text)
	}
}

// TestFlagGroups: the help of knack shows every flag in the group in which a reader looks for it.
func TestFlagGroups(t *testing.T) {
	root := rootCommand([]string{"--help"})
	root.InitDefaultHelpFlag()
	root.InitDefaultVersionFlag()
	listed := map[string]bool{}
	for _, g := range flagGroups {
		for _, name := range g.flags {
			if listed[name] || root.Flags().Lookup(name) == nil {
				t.Errorf("--%s is listed twice or does not exist", name)
			}
			listed[name] = true
		}
	}
	root.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && !listed[f.Name] {
			t.Errorf("--%s has no group", f.Name)
		}
	})
}

// TestPresetsInHelp: the page of permissions has the hosts of each preset.
func TestPresetsInHelp(t *testing.T) {
	page, err := os.ReadFile("help/permissions.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range permission.NetworkPresets() {
		_, rest, ok := strings.Cut(string(page), "\n  Network("+p.Name+") ")
		words := strings.Fields(rest)
		if !ok || len(words) < len(p.Hosts) || !slices.Equal(words[:len(p.Hosts)], p.Hosts) {
			t.Errorf("%s: %q", p.Name, words[:min(len(words), len(p.Hosts))])
		}
	}
}
