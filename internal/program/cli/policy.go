package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/tools/txtar"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

func policyCommand() *cobra.Command {
	c := &cobra.Command{Use: "policy", Short: "Test the rules of an administrator"}
	c.AddCommand(policyTestCommand())
	return c
}

func policyTestCommand() *cobra.Command {
	var verbose bool
	c := &cobra.Command{
		Use:   "test [flags] FILE…",
		Short: "Compare decisions on calls with a table of what they should be",
		Long: `Compare the decisions on calls with what a table says they should be. A FILE is a txtar archive:

  Comments, for people.
  -- settings.json --          managed settings; without it, those of this machine
  {"permissions": {"deny": ["Bash(git push --force:*)"], "ask": ["Bash(git push:*)"]}}
  -- user.json --              settings of a user, who may try to loosen them; optional
  {"permissions": {"allow": ["Bash(git push:*)"]}}
  -- calls --                  VERDICT TOOL INPUT: allow, ask or deny; the input is JSON, or a
  deny bash git push --force   command line, a path or an address; # begins a comment
  ask bash git push origin main
  allow read README.md
  -- project/README.md --      files of the project, in which the calls are decided; optional
  hello

The project is trusted, in a directory of its own, and there is nobody's home. Nothing is run. The
settings of the files count as on a machine where they are installed.

The exit code is 0 if all decisions are as expected, and 1 if not.`,
		Example: `  knack policy test policy.txtar`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			calls, wrong := 0, 0
			for _, name := range args {
				n, bad, err := testPolicy(c.Context(), name, func(format string, args ...any) {
					fmt.Fprintln(c.OutOrStdout(), plain.Line(fmt.Sprintf(format, args...)))
				}, verbose)
				if err != nil {
					return err
				}
				calls, wrong = calls+n, wrong+bad
			}
			fmt.Fprintf(c.OutOrStdout(), "%s, %d not as expected\n", plain.Count(calls, "call"), wrong)
			if wrong > 0 {
				return &engine.Error{Err: errSilent{}, Exit: engine.ExitFailed}
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&verbose, "verbose", "v", false, "print all decisions")
	return c
}

// A policyCall is a row of a table.
type policyCall struct {
	line  int // of the file
	want  permission.Verdict
	tool  string
	input json.RawMessage
	text  string // as it is written
}

// Where the settings of an archive are below its directory.
const (
	managedFile = "managed/settings.json"
	userFile    = "home/.config/knack/settings.json"
)

// maxPolicy is how large a file of tests may be, in bytes.
const maxPolicy = 8 << 20

// testPolicy decides the calls of one file.
func testPolicy(ctx context.Context, name string, say func(string, ...any), verbose bool) (calls, wrong int,
	err error) {
	data, err := regular.ReadNamed(name, maxPolicy)
	if err != nil {
		return 0, 0, &engine.Error{Err: err, Hint: "knack help policy test", Exit: engine.ExitUsage}
	}
	dir, err := os.MkdirTemp("", "knack-policy-")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return 0, 0, err
	}
	// The reader knows the names of the archive, not where its files are for a moment.
	at := dir + string(filepath.Separator)
	named := strings.NewReplacer(at+filepath.FromSlash(managedFile), "settings.json", at+filepath.FromSlash(userFile),
		"user.json", at, "").Replace
	table, o, err := policyOptions(name, data, dir)
	if err != nil {
		return 0, 0, err
	}
	e, err := engine.Open(ctx, o)
	if err != nil {
		return 0, 0, &engine.Error{Err: errors.New(name + ": " + named(err.Error())), Hint: "knack help policy test",
			Exit: engine.ExitUsage}
	}
	defer e.Close()
	ws, err := e.Workspace(ctx)
	if err != nil {
		return 0, 0, err
	}
	for _, p := range e.Project().SettingsProblems() {
		say("%s: %s", name, named(p.String()))
		wrong++
	}
	for _, call := range table {
		got, err := decideIn(ctx, e, ws, call)
		if err != nil {
			return calls, wrong, &engine.Error{Err: fmt.Errorf("%s:%d: %w", name, call.line, err),
				Hint: "knack help policy test",
				Exit: engine.ExitUsage}
		}
		calls++
		why := got.Reason
		if got.Rule != "" {
			why = fmt.Sprintf("the rule %s (%s)", got.Rule, got.Origin)
		}
		why = strings.TrimSuffix(": "+named(why), ": ")
		switch {
		case got.Verdict != call.want:
			wrong++
			say("%s:%d: %s: want %s, got %s%s", name, call.line, call.text, call.want, got.Verdict, why)
		case verbose:
			say("%s:%d: %s: %s%s", name, call.line, call.text, got.Verdict, why)
		}
	}
	return calls, wrong, nil
}

func decideIn(ctx context.Context, e *engine.Engine, ws workspace.Workspace, call policyCall) (permission.Decision,
	error) {
	subjects, err := part.Subjects(ctx, ws, e.Project(), call.tool, call.input)
	if err != nil {
		return permission.Decision{}, err
	}
	return e.Decide(ctx, subjects...)
}

// policyOptions writes the files of an archive below dir, and returns its table and how to open the project in it.
func policyOptions(name string, data []byte, dir string) (table []policyCall, o engine.Options, err error) {
	usage := func(format string, args ...any) error {
		return &engine.Error{Err: fmt.Errorf(name+": "+format, args...), Hint: "knack help policy test",
			Exit: engine.ExitUsage}
	}
	o = engine.Options{Dir: filepath.Join(dir, "project"), Trust: true, Version: version(), Parts: parts(nil, nil),
		Env: func(name string) string {
			if name == "PATH" {
				return os.Getenv("PATH")
			}
			return map[string]string{"HOME": filepath.Join(dir, "home"), "USERPROFILE": filepath.Join(dir, "home")}[name]
		}}
	for _, d := range []string{"project", "home/.config/knack", "managed"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.FromSlash(d)), 0o700); err != nil {
			return nil, o, err
		}
	}
	found := false
	line := 1 + strings.Count(string(txtar.Parse(data).Comment), "\n")
	for _, f := range txtar.Parse(data).Files {
		at := line + 1 // of its first line
		line = at + strings.Count(string(f.Data), "\n")
		path := ""
		switch {
		case f.Name == "calls":
			found = true
			if table, err = policyTable(string(f.Data), at); err != nil {
				return nil, o, usage("%w", err)
			}
			continue
		case f.Name == "settings.json":
			o.Managed = []string{filepath.Join(dir, "managed")}
			path = managedFile
		case f.Name == "user.json":
			path = userFile
		case strings.HasPrefix(f.Name, "project/") && filepath.IsLocal(filepath.FromSlash(f.Name)):
			path = f.Name
		default:
			return nil, o, usage("there is a file %q, which means nothing", f.Name)
		}
		path = filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, o, err
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			return nil, o, err
		}
	}
	if !found || len(table) == 0 {
		return nil, o, usage("it has no calls")
	}
	return table, o, nil
}

// policyTable reads the rows of a table, whose first line is at.
func policyTable(text string, at int) (table []policyCall, err error) {
	for i, row := range strings.Split(text, "\n") {
		row = strings.TrimSpace(row)
		if row == "" || strings.HasPrefix(row, "#") {
			continue
		}
		words := strings.Fields(row)
		verdicts := []permission.Verdict{permission.Allow, permission.Ask, permission.Deny}
		v := slices.IndexFunc(verdicts, func(v permission.Verdict) bool { return v.String() == words[0] })
		if v < 0 || len(words) < 2 {
			return nil, fmt.Errorf("line %d: %q is not VERDICT TOOL INPUT, with the verdict allow, ask or deny", at+i, row)
		}
		call := policyCall{line: at + i, want: verdicts[v], tool: words[1], text: strings.Join(words[1:], " ")}
		input := strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(strings.TrimPrefix(row, words[0])), words[1]))
		if call.input, err = policyInput(words[1], input); err != nil {
			return nil, fmt.Errorf("line %d: %w", at+i, err)
		}
		table = append(table, call)
	}
	return table, nil
}

// policyInput returns the input of a tool: JSON, or the text of its only member that matters.
func policyInput(name, text string) (json.RawMessage, error) {
	if strings.HasPrefix(text, "{") {
		if !json.Valid([]byte(text)) {
			return nil, errors.New("the input is not valid JSON")
		}
		return json.RawMessage(text), nil
	}
	t, ok := part.KnownTools().Find(name)
	if !ok {
		if text == "" && strings.HasPrefix(name, "mcp__") {
			return json.RawMessage("{}"), nil
		}
		return nil, fmt.Errorf("there is no tool %s in this program: write the input of one of a server or a project as JSON",
			plain.Line(name))
	}
	input := map[string]any{}
	switch t.Name {
	case "bash":
		input["command"] = text
	case "read", "ls":
		input["path"] = text
	case "write":
		input["path"], input["content"] = text, ""
	case "edit":
		input["path"], input["edits"] = text, []map[string]string{{"oldText": "a", "newText": "b"}}
	case "web_fetch":
		input["url"] = text
	default:
		if text != "" {
			return nil, fmt.Errorf("the input of %s must be JSON", t.Name)
		}
	}
	return json.Marshal(input)
}
