package own

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// TestParse: what a definition may say, and what is refused with its reason.
func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"Counts words.":        "",
		`{"description": "x"}`: "",
		`{"description": "x", "effect": "reads | network", "timeout": 3, "command": "true"}`: "",
		`{"description": "x", "effect": ["runs"], "command": ["a", "b"]}`:                    "",
		"":                                    "there is no description",
		strings.Repeat("x", maxDescription+1): "longer than 8192 bytes",
		`{"description": " "}`:                "there is no description",
		`{"description": "x", "descripton": "y"}`:                                 `unknown field "descripton"`,
		`{"description": "x"} {}`:                                                 "more than one JSON object",
		`{"description": "x"`:                                                     "unexpected EOF",
		`{"description": "x", "effect": "safe"}`:                                  `effect "safe" is none of`,
		`{"description": "x", "timeout": -1}`:                                     "timeout must be",
		`{"description": "x", "command": []}`:                                     "command is empty",
		`{"description": "x", "command": 3}`:                                      "cannot unmarshal",
		`{"description": "x", "subjects": {"file": "$.x"}}`:                       `"file" is none of path, read, write, url`,
		`{"description": "x", "subjects": {"path": "x"}}`:                         `"x" does not begin with $`,
		`{"description": "x", "inputSchema": {"type": "array"}}`:                  "its type must be object",
		`{"description": "x", "inputSchema": {"type": "object", "$ref": "#"}}`:    "without end",
		`{"description": "x", "inputSchema": []}`:                                 "inputSchema",
		`{"description": "x", "inputSchema": {"type": "object", "$ref": "#/no"}}`: "inputSchema",
	} {
		_, err := parse(text, toolMark)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestInHead(t *testing.T) {
	for program, want := range map[string]string{
		"#!/bin/sh\n# knack-tool: Does it.\n":         "Does it.",
		"#!/usr/bin/env node\n// knack-tool: {} \r\n": "{}",
		"/* knack-tool: Does it. */\n":                "Does it.",
		"-- knack-tool: x":                            "x",
		"echo knack-tool: x\n":                        "-",
		"\x7fELF\x00knack-tool: x":                    "-",
		strings.Repeat("\n", 20) + "# knack-tool: x":  "-",
		strings.Repeat("x", 1<<20):                    "-",
		"":                                            "-",
	} {
		got, ok := inHead([]byte(program), toolMark)
		if !ok {
			got = "-"
		}
		if got != want {
			t.Errorf("%.40q: %q, want %q", program, got, want)
		}
	}
}

func TestFindPaths(t *testing.T) {
	input := json.RawMessage(`{"file": "a", "to": {"file": "b"}, "files": ["c", "d"], "n": 1, "no": null}`)
	for path, want := range map[string]string{"$.file": "a", "$.to.file": "b", "$.files[*]": "c d", "$.none": "", "$.no": "",
		"$.file.x": "", "$.n": "error", "$.files": "error", "$.to": "error"} {
		texts, err := textsAt(input, path)
		got := strings.Join(texts, " ")
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// FuzzParse: no definition and no program makes the parser fail in another way than with an error.
func FuzzParse(f *testing.F) {
	f.Add("# knack-tool: {\"description\": \"x\", \"effect\": \"reads\"}", `{"a": ["b"]}`, "$.a[*]")
	f.Add("# knack-tool: x", `{}`, "$.")
	f.Fuzz(func(t *testing.T, program, input, path string) {
		if text, ok := inHead([]byte(program), toolMark); ok {
			if d, err := parse(text, toolMark); err == nil {
				d.summary(json.RawMessage(input))
			}
		}
		textsAt(json.RawMessage(input), path)
	})
}

// TestFind: which files are tools, whose comes first, and what is left out.
func TestFind(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs permissions of POSIX")
	}
	project, user := t.TempDir(), t.TempDir()
	write := func(dir, name, text string, mode os.FileMode) {
		t.Helper()
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o755)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	tools := filepath.Join(project, ".knack/tools")
	write(tools, "both", "#!/bin/sh\n# knack-tool: The project's.", 0o755)
	write(tools, "sub/inner", "#!/bin/sh\n# knack-tool: Too deep.", 0o755)
	write(tools, "plain", "#!/bin/sh\necho", 0o755)
	write(tools, "flat", "#!/bin/sh\n# knack-tool: Cannot run.", 0o644)
	write(tools, "go.go", "package main", 0o644)
	write(tools, "go.json", `{"description": "Runs go.", "command": ["go", "run", "./go.go"]}`, 0o644)
	write(tools, "empty.json", `{"description": "Has no program."}`, 0o644)
	write(tools, "9x", "#!/bin/sh\n# knack-tool: No name.", 0o755)
	write(tools, "mcp__a__b", "#!/bin/sh\n# knack-tool: No name.", 0o755)
	write(tools, "Read", "#!/bin/sh\n# knack-tool: Taken.", 0o755)
	// What runs is approved, so it lies in the directory; a definition is no flood.
	write(tools, "above.json", `{"description": "x", "command": ["../../evil"]}`, 0o644)
	write(tools, "script.json", `{"description": "x", "command": ["scripts/x", "y"]}`, 0o644)
	write(tools, "huge.json", `{"description": "`+strings.Repeat("x", maxDefinition)+`", "command": "true"}`, 0o644)
	write(user+"/tools", "both", "#!/bin/sh\n# knack-tool: The user's.", 0o755)
	write(user+"/tools", "mine.py", "#!/usr/bin/env python3\n# knack-tool: Mine.", 0o755)
	if err := os.Symlink("/dev/zero", filepath.Join(user, "tools", "device")); err != nil {
		t.Fatal(err)
	}
	b := engine.Brought{Dirs: []string{project}, User: user, Check: func(string, []byte) error { return nil },
		Names: func() []string { return []string{"read"} }}
	programs, problems := Find(b)
	var names, wrong []string
	for _, p := range programs {
		names = append(names, p.Name+" "+p.definition.Description)
	}
	for _, p := range problems {
		wrong = append(wrong, filepath.Base(p.Path))
	}
	slices.Sort(wrong)
	if got, want := strings.Join(names, ", "), "both The user's., mine Mine., go Runs go."; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	if got, want := strings.Join(wrong, " "), "9x Read above.json both device empty.json flat huge.json inner mcp__a__b script.json"; got != want {
		t.Errorf("problems of %s; want %s", got, want)
	}
	for _, p := range programs {
		if p.Name == "go" && p.definition.Command[2] != filepath.Join(tools, "go.go") {
			t.Errorf("the command is %q", p.definition.Command)
		}
		if made := p.tool(nil, engine.Place{}, coding.Options{}); made.Effect&tool.Runs == 0 || made.Effect.ReadOnly() {
			t.Errorf("%s: effect %v", p.Name, made.Effect)
		}
	}

	// One file that is not approved closes the directory.
	b.Check = func(file string, _ []byte) error {
		if filepath.Base(file) == "inner" {
			return errors.New("not approved")
		}
		return nil
	}
	programs, _ = Find(b)
	if len(programs) != 2 || programs[0].definition.Description != "The user's." {
		t.Errorf("%d tools with a file that is not approved", len(programs))
	}
}

// TestProcessDefinition: what is wrong with a definition is told, and nothing of it is used.
func TestProcessDefinition(t *testing.T) {
	for text, want := range map[string]string{
		`{"type": "process", "description": "d", "tools": {"a": {"description": "d"}}}`:                 "",
		`{"type": "process", "description": "d"}`:                                                       "no tools, commands or hooks",
		`{"type": "proces", "description": "d"}`:                                                        `type is "proces"`,
		`{"description": "d", "tools": {"a": {"description": "d"}}}`:                                    "type is missing",
		`{"type": "process", "description": "d", "tools": {"a": null}}`:                                 "there is no definition",
		`{"type": "process", "description": "d", "tools": {"a b": {"description": "d"}}}`:               "is not a name",
		`{"type": "process", "description": "d", "hooks": [{"event": "PreToolUs"}]}`:                    "is not an event",
		`{"type": "process", "description": "d", "hooks": [{"event": "Stop", "matcher": "("}]}`:         "matcher",
		`{"type": "process", "description": "d", "hooks": [{"event": "SessionEnd"}]}`:                   "end of its input",
		`{"type": "process", "description": "d", "tools": {"a": {"description": "d", "command": "x"}}}`: "not its own",
	} {
		_, err := parse(text, toolMark)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
