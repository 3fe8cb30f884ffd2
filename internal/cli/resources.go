package cli

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/bundled"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/hook"
	"github.com/knack-agent/knack/internal/config"
	"github.com/knack-agent/knack/internal/instructions"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/internal/subpath"
	"github.com/knack-agent/knack/internal/trust"
	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/sources"
)

// resourceFlags say which skills there are. Every command that loads skills
// has them.
type resourceFlags struct {
	skills   []string
	addDirs  []string
	bare     bool
	noSkills bool
	trust    bool
	window   int
	settings []string

	templates []string // a flag of conversations
	agents    string
}

func (f *resourceFlags) register(c *cobra.Command) {
	fs := c.Flags()
	fs.StringArrayVar(&f.skills, "skill", nil, "also use the skill, file or directory of skills at `PATH`; it is trusted")
	fs.StringArrayVar(&f.addDirs, "add-dir", nil, "also use what `DIR` holds in .claude, .agents, .knack and .pi")
	fs.BoolVar(&f.bare, "bare", false, "use only --skill, --add-dir, managed and bundled skills")
	fs.BoolVar(&f.noSkills, "no-skills", false, "use only managed skills")
	fs.StringArrayVar(&f.settings, "settings", nil, "also read the settings in `FILE`, or written as JSON")
	fs.BoolVar(&f.trust, "trust", false, "trust this project for this run")
}

// registerView adds what a listing depends on.
func (f *resourceFlags) registerView(c *cobra.Command) {
	c.Flags().IntVar(&f.window, "window", 0, "the model's window in `tokens`, of which the listing may take a part")
}

// resources are what a working directory and the flags bring: settings, trust
// and skills.
type resources struct {
	dir, root string
	home      string
	project   *trust.Project
	settings  *config.Config
	options   sources.Options
	sources   []knack.Source
	bundled   *bundled.Set
	view      knack.View // how skills are listed

	hooks        []hook.Hook // of settings
	hookProblems []knack.Problem

	sandboxes       map[string][]*knack.Sandbox // by skill, of settings
	sandboxProblems []knack.Problem

	written          instructions.Options // where people's own words are
	templates        []knack.Command
	templateProblems []knack.Problem
	agents           []agent.Definition
	agentProblems    []knack.Problem
}

// open reads settings and finds the places of skills; extra are values of
// other flags, by settings key. It reads no skill.
func (f *resourceFlags) open(ctx context.Context, extra map[string]any) (*resources, error) {
	r := &resources{}
	var err error
	if r.dir, err = os.Getwd(); err != nil {
		return nil, err
	}
	for _, path := range slices.Concat(f.skills, f.addDirs, f.templates) {
		if _, err := os.Stat(path); err != nil {
			return nil, engine.Usagef("ls "+filepath.Dir(path), "%s: no such file or directory", plain.Line(path))
		}
	}
	o := sources.FromEnv(os.Getenv)
	o.Cache = engine.Env(nil).StateFile("cache")
	r.home = o.Home
	r.root = sources.Root(r.dir)
	o.Skills, o.AddDirs, o.Bare, o.NoSkills = f.skills, f.addDirs, f.bare, f.noSkills
	if r.project, err = openProject(r.dir, f.trust); err != nil {
		return nil, err
	}
	if r.settings, err = loadSettings(r.dir, r.project, f.settings, extra); err != nil {
		return nil, err
	}
	r.sandboxes, r.sandboxProblems = skillSandboxes(r.settings.Raw["sandbox.skills"])
	if !f.bare {
		r.readHooks()
	}
	set := &r.settings.Settings
	for _, k := range set.Skills.Order {
		o.Order = append(o.Order, knack.Kind(k))
	}
	var added []string
	for _, d := range f.addDirs {
		added = append(added, real(d))
	}
	o.Check = func(path string, data []byte, head bool) error {
		if head {
			return r.project.CheckHead(path, data)
		}
		return r.project.Check(path, data)
	}
	o.Trust = func(kind knack.Kind, dir string) knack.Trust {
		dir = real(dir)
		if r.project.Links(dir) {
			return knack.Trusted
		}
		for _, d := range added {
			if kind == knack.Additional && subpath.Contains(d, dir) {
				return knack.Trusted
			}
		}
		return knack.Untrusted
	}
	r.bundled = bundled.New(engine.Env(nil).StateHome(), version())
	r.bundled.Features = features(r.settings, os.Getenv("KNACK_FEATURES"))
	o.Bundled = []knack.Source{r.bundled}
	r.options = o
	r.sources = sources.Default(ctx, r.dir, o)

	place := permission.Place{Dir: r.dir, Home: r.home, Own: engine.Env(nil).OwnDirs()}
	r.written = instructions.Options{Secret: place.Secret, Check: r.project.Check, Templates: f.templates, Tools: engine.KnownTools().AllNames()}
	if !f.bare {
		r.written.Dir, r.written.Root, r.written.Home = r.dir, r.root, r.home
		r.written.ConfigHome, r.written.ClaudeHome = engine.Env(nil).ConfigDir(), engine.Env(nil).ClaudeDir()
	}
	r.written.Managed = sources.ManagedDirs(runtime.GOOS)
	r.templates, r.templateProblems = instructions.Templates(r.written)
	if r.agents, r.agentProblems, err = f.definitions(r.written); err != nil {
		return nil, err
	}

	r.view = knack.View{
		For: knack.ByModel, Window: f.window, Dir: r.root,
		Budget: set.Skills.ListingBudget, MaxChars: set.Skills.ListingMaxChars,
		Used: engine.ReadUsage(nil).Order(),
	}
	for name, state := range set.Skills.Overrides {
		if r.view.Overrides == nil {
			r.view.Overrides = map[string]knack.State{}
		}
		r.view.Overrides[name] = knack.State(state)
	}
	// 0 and what is no number count as not set.
	if n, err := strconv.Atoi(os.Getenv("SLASH_COMMAND_TOOL_CHAR_BUDGET")); err == nil && n > 1 {
		r.view.Budget = float64(n)
	}
	return r, nil
}

// close removes what bundled skills were extracted to.
func (r *resources) close() error { return r.bundled.Close() }

// features are the gates that settings and the environment open or close; what
// the administrator of the machine set stays.
func features(settings *config.Config, env string) map[string]bool {
	on := maps.Clone(settings.Settings.Features)
	for _, name := range strings.FieldsFunc(env, func(r rune) bool { return r == ',' || r == ' ' }) {
		if at := settings.Where("features." + name); len(at) > 0 && at[0].Origin == permission.Managed {
			continue
		}
		if on == nil {
			on = map[string]bool{}
		}
		on[name] = true
	}
	return on
}

// problems are those of settings and skills, and of what the two make of each
// other: overrides without effect, names that cannot be typed after a slash.
func (r *resources) problems(cat *knack.Catalog) []knack.Problem {
	_, slash := (&agent.Agent{Skills: func() *knack.Catalog { return cat }, View: r.view, Commands: (&sessionRun{resources: r}).typed}).Namespace()
	var hooks []knack.Problem
	for _, k := range cat.Skills() {
		hooks = append(hooks, hookProblemsOf(k)...)
	}
	return slices.Concat(engine.Env(nil).Problems(), r.settings.Problems, r.sandboxProblems, r.hookProblems, cat.Problems(), cat.Overruled(r.view), r.templateProblems, r.agentProblems, hooks, slash)
}

// load reads the skills too, for the commands that only show them.
func (f *resourceFlags) load(ctx context.Context) (*catalogView, error) {
	r, err := f.open(ctx, nil)
	if err != nil {
		return nil, err
	}
	cat := knack.Load(ctx, r.sources...)
	return &catalogView{Catalog: cat, view: r.view, all: r.problems(cat), used: engine.ReadUsage(nil), sandboxes: r.sandboxes}, nil
}

// completeSkill offers the shell the names of skills, or files.
func (f *resourceFlags) completeSkill(c *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	cat, err := f.load(c.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, e := range cat.Entries() {
		if name := e.Name(); strings.HasPrefix(name, start) && plain.Line(name) == name && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}

func real(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	if r, err := filepath.EvalSymlinks(abs); err == nil {
		return r
	}
	return abs
}

// printProblems tells of errors and, if they are few, of warnings. With all it
// tells of everything.
func printProblems(w io.Writer, problems []knack.Problem, all bool) {
	const few = 5
	count := map[knack.Severity]int{}
	kinds := map[string]int{}
	for _, p := range problems {
		count[p.Severity]++
		if p.Severity == knack.Warn {
			kinds[p.Code]++
		}
	}
	shown := map[knack.Severity]int{}
	for _, p := range problems {
		show := all || p.Severity == knack.Error || p.Severity == knack.Warn && count[knack.Warn] <= few
		if shown[p.Severity]++; show && (all || shown[p.Severity] <= 2*few) {
			printProblem(w, p)
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
		for _, code := range slices.SortedFunc(maps.Keys(kinds), func(a, b string) int {
			return cmp.Or(kinds[b]-kinds[a], strings.Compare(a, b))
		}) {
			list = append(list, fmt.Sprintf("%s %d", code, kinds[code]))
		}
		fmt.Fprintf(w, "knack: warn: %d warnings: %s\n", count[knack.Warn], strings.Join(list, ", "))
	}
	if count[knack.Warn] > few || count[knack.Error] > 2*few {
		fmt.Fprintln(w, "knack: hint: knack skill list --all shows each")
	}
}

func printProblem(w io.Writer, p knack.Problem) {
	fmt.Fprintf(w, "knack: %s: %s\n", p.Severity, shownProblem(p))
	if p.Hint != "" {
		fmt.Fprintf(w, "knack: hint: %s\n", plain.Line(p.Hint))
	}
}

// shown is a path as a person reads it best: from here, or from home.
func shown(path string) string {
	if !filepath.IsAbs(path) {
		return path
	}
	if dir, err := os.Getwd(); err == nil && subpath.Contains(dir, path) {
		if rel, err := filepath.Rel(dir, path); err == nil {
			return rel
		}
	}
	if home := engine.Env(nil).Home(); home != "" && subpath.Contains(home, path) {
		if rel, err := filepath.Rel(home, path); err == nil {
			return filepath.Join("~", rel)
		}
	}
	return path
}

// oneLine shortens a text to a width in characters.
func oneLine(s string, width int) string {
	if len(s) > 8*width { // more than can be shown, however it is written
		s = s[:8*width]
	}
	s = plain.Line(strings.Join(strings.Fields(strings.ToValidUTF8(s, "")), " "))
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	for i := range s {
		if width--; width == 0 {
			return s[:i] + "…"
		}
	}
	return s
}

// shownProblem is a problem as a line for a terminal.
func shownProblem(p knack.Problem) string {
	p.Path, p.Message = shown(p.Path), shownIn(p.Message)
	return plain.Line(p.String())
}

// shownIn is a sentence with its paths as shown has them.
func shownIn(text string) string {
	if dir, err := os.Getwd(); err == nil && len(dir) > 1 {
		text = strings.ReplaceAll(text, dir+string(filepath.Separator), "")
	}
	if home := engine.Env(nil).Home(); len(home) > 1 {
		text = strings.ReplaceAll(text, home+string(filepath.Separator), "~"+string(filepath.Separator))
	}
	return text
}

// writeTable writes rows in columns. A cell that is much longer than others
// pushes its own row only.
func writeTable(w io.Writer, rows [][]string) {
	const most = 32
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			width[i] = min(most, max(width[i], utf8.RuneCountInString(cell)))
		}
	}
	out := bufio.NewWriter(w)
	defer out.Flush()
	for _, r := range rows {
		last := len(r) - 1
		for last > 0 && r[last] == "" {
			last--
		}
		for i, cell := range r[:last] {
			out.WriteString(cell)
			out.WriteString(strings.Repeat(" ", 2+max(0, width[i]-utf8.RuneCountInString(cell))))
		}
		out.WriteString(r[last] + "\n")
	}
}
