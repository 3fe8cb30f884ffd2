package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/program/line"
	"github.com/knack-agent/knack/run/agent"
)

// projectFlags select what a directory provides. Every command that loads skills has them.
type projectFlags struct {
	skills   []string
	addDirs  []string
	bare     bool
	noSkills bool
	trust    bool
	window   int
	settings []string
	plugins  []string
	mcp      []string
	strict   bool
}

func (f *projectFlags) register(c *cobra.Command) {
	fs := c.Flags()
	fs.StringArrayVar(&f.skills, "skill", nil, "also use the skill, or directory of skills, at `PATH`, without "+
		"asking for trust")
	fs.StringArrayVar(&f.addDirs, "add-dir", nil, "let tools use `DIR` as they use the working directory, and use "+
		"its .claude, .agents, .knack and .pi")
	fs.StringArrayVar(&f.plugins, "plugin-dir", nil, "also use the plugin, or directory of plugins, in `DIR` (or .zip), "+
		"without asking for trust")
	fs.BoolVar(&f.bare, "bare", false, "use only --skill, --add-dir, managed and bundled skills")
	fs.BoolVar(&f.noSkills, "no-skills", false, "use only managed skills")
	fs.StringArrayVar(&f.settings, "settings", nil, "also read settings: a `FILE`, or JSON")
	fs.BoolVar(&f.trust, "trust", false, "trust this project for this run")
}

// registerServers adds the flags that select MCP servers.
func (f *projectFlags) registerServers(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.mcp, "mcp-config", nil, "also use these MCP servers: a `FILE`, or JSON")
	c.Flags().BoolVar(&f.strict, "strict-mcp-config", false, "use only the MCP servers of --mcp-config")
}

// registerView adds the flags that a skill listing depends on.
func (f *projectFlags) registerView(c *cobra.Command) {
	c.Flags().IntVar(&f.window, "window", 0, "the size of the model's window in `tokens`; the limit of the list "+
		"depends on it")
}

// options returns the flags as options of the engine.
func (f *projectFlags) options() engine.Options {
	return engine.Options{
		Skills: f.skills, AddDirs: f.addDirs, Plugins: f.plugins, Settings: f.settings, Bare: f.bare,
		NoSkills: f.noSkills, Trust: f.trust, Window: f.window,
		MCPConfig: f.mcp, StrictMCP: f.strict,
		Program: thisProgram(), Version: version(), BuiltIn: []agent.Definition{guide()}, Commands: command.All(line.Hotkeys),
		Parts: parts(nil, nil), Above: workspace.FindAbove().Limits,
	}
}

// load reads the skills for commands that only show them.
func (f *projectFlags) load(ctx context.Context) (*command.Skills, error) {
	p, err := engine.Load(ctx, f.options())
	if err != nil {
		return nil, err
	}
	return command.ReadSkills(ctx, p), nil
}

// completeSkill completes names of skills or files.
func (f *projectFlags) completeSkill(c *cobra.Command, args []string, start string) ([]string,
	cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	cat, err := f.load(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, e := range cat.Candidates() {
		if name := e.Name(); strings.HasPrefix(name, start) && plain.Line(name) == name && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}

// printProblems prints errors and, if there are few, warnings. With all set it prints every
// problem.
func printProblems(w io.Writer, p *engine.Project, problems []knack.Problem, all bool) {
	const few = 5
	if !all {
		problems = oneOfUntrusted(problems)
	}
	count := map[knack.Severity]int{}
	kinds := map[knack.Code]int{}
	for _, x := range problems {
		count[x.Severity]++
		if x.Severity == knack.Warn {
			kinds[x.Code]++
		}
	}
	shown := map[knack.Severity]int{}
	for _, x := range problems {
		show := all || x.Severity == knack.Error || x.Severity == knack.Warn && count[knack.Warn] <= few
		if shown[x.Severity]++; show && (all || shown[x.Severity] <= 2*few) {
			printProblem(w, p, x)
		}
	}
	if all {
		return
	}
	if more := count[knack.Error] - 2*few; more > 0 {
		fmt.Fprintf(w, "knack: error: and %d more\n", more)
	}
	if count[knack.Warn] > few {
		var list []string
		for _, code := range slices.SortedFunc(maps.Keys(kinds), func(a, b knack.Code) int {
			return cmp.Or(kinds[b]-kinds[a], cmp.Compare(a, b))
		}) {
			list = append(list, fmt.Sprintf("%s %d", code, kinds[code]))
		}
		fmt.Fprintf(w, "knack: warn: %d warnings: %s\n", count[knack.Warn], strings.Join(list, ", "))
	}
	if count[knack.Warn] > few || count[knack.Error] > 2*few {
		fmt.Fprintln(w, "knack: hint: knack skill list --all shows each")
	}
}

// oneOfUntrusted replaces several warnings about what the user has not approved by one.
func oneOfUntrusted(problems []knack.Problem) []knack.Problem {
	waits := func(x knack.Problem) bool {
		return x.Severity == knack.Warn && (x.Code == knack.CodeUntrusted || x.Code == knack.CodeChanged)
	}
	n, first := 0, -1
	for i, x := range problems {
		if waits(x) {
			if n++; first < 0 {
				first = i
			}
		}
	}
	if n <= 2 {
		return problems
	}
	one := knack.Problem{Code: knack.CodeUntrusted, Severity: knack.Warn,
		Message: fmt.Sprintf("%d files of this project are not used, or only what they deny, because they are not trusted",
			n),
		Hint: "knack trust"}
	problems = slices.Clone(problems)
	problems[first] = one
	return slices.DeleteFunc(problems, func(x knack.Problem) bool { return waits(x) && x != one })
}

// printProblem prints a problem, a warning in one line.
func printProblem(w io.Writer, p *engine.Project, x knack.Problem) {
	hint := plain.Line(x.Hint)
	if hint != "" && x.Severity != knack.Error {
		fmt.Fprintf(w, "knack: %s: %s (%s)\n", x.Severity, p.ShortProblem(x), hint)
		return
	}
	fmt.Fprintf(w, "knack: %s: %s\n", x.Severity, p.ShortProblem(x))
	if hint != "" {
		fmt.Fprintf(w, "knack: hint: %s\n", hint)
	}
}

// writeTable writes rows in aligned columns. The first row is the heading.
func writeTable(w io.Writer, rows [][]string) {
	t := engine.Table{Rows: rows}
	t.Write(w)
}
