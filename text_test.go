package knack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// goldenCases runs every testdata/dir/*.txtar: each file of a document except NAME.want is a case, and NAME.want is
// what run returns for it. A file whose name ends with .quoted is a Go string, for bytes that a text file cannot
// contain.
func goldenCases(t *testing.T, dir string, run func(t *testing.T, name string, data []byte,
	files map[string]string) string) {
	docs, err := filepath.Glob(filepath.Join("testdata", dir, "*.txtar"))
	if err != nil || len(docs) == 0 {
		t.Fatal(docs, err)
	}
	for _, doc := range docs {
		t.Run(strings.TrimSuffix(filepath.Base(doc), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(doc)
			if err != nil {
				t.Fatal(err)
			}
			files := map[string]string{}
			for _, f := range a.Files {
				files[f.Name] = string(f.Data)
			}
			var out []txtar.File
			for _, f := range a.Files {
				if strings.HasSuffix(f.Name, ".want") {
					continue
				}
				out = append(out, f)
				if strings.HasSuffix(f.Name, ".args") {
					continue
				}
				data := f.Data
				name, isQuoted := strings.CutSuffix(f.Name, ".quoted")
				if isQuoted {
					s, err := strconv.Unquote(strings.TrimSpace(string(data)))
					if err != nil {
						t.Fatalf("%s: %v", f.Name, err)
					}
					data = []byte(s)
				}
				got := run(t, name, data, files)
				if !strings.HasSuffix(got, "\n") {
					got += "\n"
				}
				want, ok := files[f.Name+".want"]
				if !ok && !*updateGolden {
					t.Errorf("%s: no %s.want; run go test -update", f.Name, f.Name)
				}
				if got != want && !*updateGolden {
					t.Errorf("%s: %s", f.Name, cmp.Diff(want, got))
				}
				out = append(out, txtar.File{Name: f.Name + ".want", Data: []byte(got)})
			}
			if *updateGolden {
				a.Files = out
				if err := os.WriteFile(doc, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestParse: what is read from a file, and the problems reported to its author.
func TestParse(t *testing.T) {
	goldenCases(t, "parse", func(t *testing.T, name string, data []byte, _ map[string]string) string {
		o := Origin{Kind: Project, Trust: Trusted}
		if kind, rest, ok := strings.Cut(name, ":"); ok {
			o.Kind, name = SourceKind(kind), rest
		}
		s, body, problems := parseFile(filepath.FromSlash(name), data, o)
		return dumpSkill(s, string(body)) + dumpProblems(problems)
	})
}

func dumpSkill(s *Skill, body string) string {
	if s == nil {
		return "not loaded\n"
	}
	var b strings.Builder
	show := func(key string, value any) {
		if v, _ := json.Marshal(value); !slices.Contains([]string{`""`, "null", "false", "[]", "{}"}, string(v)) {
			fmt.Fprintf(&b, "%s: %s\n", key, v)
		}
	}
	show("name", s.Name)
	show("label", s.Label)
	show("aliases", s.Aliases)
	show("description", s.Description)
	show("when to use", s.WhenToUse)
	show("not offered", !s.Offered())
	show("argument hint", s.ArgumentHint)
	show("arguments", s.Arguments)
	show("allowed", s.AllowedTools)
	show("disallowed", s.DisallowedTools)
	show("not user", s.NotUser)
	show("not model", s.NotModel)
	show("mode", s.Mode)
	show("model", s.Model)
	show("effort", s.Effort)
	show("fork", s.Fork)
	show("agent", s.Agent)
	show("background", s.Background)
	show("paths", s.Paths)
	show("hooks", s.Hooks)
	if s.Sandbox != nil {
		show("sandbox", s.Sandbox.String())
	}
	show("shell", s.Shell)
	show("retain", s.Retain)
	for _, f := range s.Fields() {
		fmt.Fprintf(&b, "field %s = %s\n", f.Key, f.Value)
	}
	fmt.Fprintf(&b, "body: %q\n", body)
	return b.String()
}

func dumpProblems(problems []Problem) string {
	var b strings.Builder
	for _, p := range problems {
		p.Path = filepath.ToSlash(p.Path)
		fmt.Fprintf(&b, "%s %s %s\n\thint: %s\n", p.Severity, p.Code, strings.TrimPrefix(p.String(), path.Dir(p.Path)+"/"),
			p.Hint)
	}
	return b.String()
}

// TestExpand: the text that a model reads. NAME.args contains the invocations of a case, one per line; without it
// there is one without arguments. A line that begins with a quote is a Go string; "by-model " before it sets the
// caller.
func TestExpand(t *testing.T) {
	goldenCases(t, "expand", func(t *testing.T, name string, data []byte, files map[string]string) string {
		var b strings.Builder
		lines := []string{""}
		if args, ok := files[name+".args"]; ok {
			lines = strings.Split(strings.TrimSuffix(args, "\n"), "\n")
		}
		for _, line := range lines {
			fmt.Fprintf(&b, "args %s\n", line)
			in := Invocation{By: ByUser, Shell: echoShell, Vars: map[string]string{
				"CLAUDE_SESSION_ID": "s-1", "CLAUDE_PROJECT_DIR": "/project", "CLAUDE_EFFORT": "high",
				"CLAUDE_PLUGIN_ROOT": "/plugin", "CLAUDE_SKILL_DIR": "/forged", "CLAUDE_PLUGIN_DATA": "/data", "HOME": "/nobody",
			}}
			o := Origin{Kind: Project, Trust: Trusted}
			for {
				flag, rest, _ := strings.Cut(line, " ")
				switch flag {
				case "by-model":
					in.By = ByModel
				case "no-shell":
					in.Shell = nil
				case "mcp":
					o = Origin{Kind: MCP, Trust: Remote}
				case "legacy":
					o.Kind = Legacy
				case "untrusted":
					o.Trust = Untrusted
				case "approved":
					in.Hash = hashOf(data)
				case "changed":
					in.Hash = "sha256:00"
				case "message":
					in.Message, rest, _ = strings.Cut(rest, " | ")
				default:
					flag = ""
				}
				if flag == "" {
					break
				}
				line = rest
			}
			if strings.HasPrefix(line, `"`) {
				s, err := strconv.Unquote(line)
				if err != nil {
					t.Fatal(err)
				}
				line = s
			}
			in.Args = line
			b.WriteString(invokeText(t, name, data, o, in))
			b.WriteString("\n")
		}
		return b.String()
	})
}

// TestTemplate: the placeholders of Pi. NAME.args contains what is typed, one per line, as a Go string if it begins
// with a quote.
func TestTemplate(t *testing.T) {
	goldenCases(t, "template", func(t *testing.T, name string, data []byte, files map[string]string) string {
		var b strings.Builder
		for _, args := range strings.Split(strings.TrimSuffix(files[name+".args"], "\n"), "\n") {
			fmt.Fprintf(&b, "args %s\n", args)
			if s, err := strconv.Unquote(args); err == nil {
				args = s
			}
			text, used := ExpandTemplate(string(data), args)
			b.WriteString(text)
			if !used {
				b.WriteString("(nothing was put in)\n")
			}
		}
		return b.String()
	})
}

// echoShell prints the command that it should run.
func echoShell(_ context.Context, _ *Activation, line string, env []string) (string, error) {
	switch line {
	case "false":
		return "", errors.New("exit status 1")
	case "true":
		return "", nil
	case "two-lines":
		return "one\ntwo\n\n", nil
	case "echo-placeholder":
		return "$ARGUMENTS !`id` {baseDir}\n", nil
	}
	return fmt.Sprintf("[ran %s %q]\n", line, env), nil
}

func invokeText(t *testing.T, name string, data []byte, o Origin, in Invocation) string {
	s, _, _ := parseFile(name, data, o)
	if s == nil {
		return "not loaded\n"
	}
	s.Dir = "/skills/" + s.Name
	if o.Kind == Legacy || o.Kind == MCP {
		s.Dir = ""
	}
	s.Read = func(context.Context) ([]byte, error) { return data, nil }
	s.List = func(context.Context) ([]string, error) { return nil, nil }
	in.Name = s.Name
	a, err := Load(t.Context(), sourceOf(s)).Invoke(t.Context(), in)
	var r *Refusal
	if errors.As(err, &r) {
		return fmt.Sprintf("refused %d: %s\n", r.Code, r.Message)
	}
	if err != nil {
		t.Fatal(err)
	}
	out := a.Prompt + "\n"
	if a.Grants != nil || a.Denies != nil {
		out += fmt.Sprintf("grants %q denies %q\n", a.Grants, a.Denies)
	}
	return out + dumpProblems(a.Problems)
}

// sourceOf is a Source of skills in memory.
func sourceOf(skills ...*Skill) Source { return memory(skills) }

type memory []*Skill

func (m memory) Skills(context.Context) iter.Seq2[*Skill, error] {
	return func(yield func(*Skill, error) bool) {
		for _, s := range m {
			if !yield(s, nil) {
				return
			}
		}
	}
}
