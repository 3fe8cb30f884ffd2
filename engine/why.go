package engine

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/similar"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/sources"
)

// Why is Catalog.Why with more causes: problems from settings, skills below the working directory, and
// files that ignore files leave out.
func (p *Project) Why(ctx context.Context, cat *knack.Catalog, view knack.View, name string) knack.Why {
	w := cat.Why(name, view)
	w.Problems = nil
	problems := p.Problems(cat)
	folders := slices.Clone(p.sources)
	for _, below := range sources.NewNested(p.dir, p.sourceOptions).FindAll(ctx) {
		if slices.ContainsFunc(w.Locations, func(at knack.Location) bool { return at.Path == below.Path }) {
			continue // already reported
		}
		found, more := findNested(ctx, cat, below, w.Name, name)
		w.Found, problems = append(w.Found, found...), append(problems, more...)
		folders = append(folders, below.Folder)
	}
	for _, src := range folders {
		if f, ok := src.(*knack.Folder); ok {
			w.Found = append(w.Found, findExcluded(ctx, f, w.Name, name)...)
		}
	}
	if len(w.Found) == 0 {
		w.Found = p.findMisplaced(folders, w.Name, name)
	}
	if len(w.Found) == 0 {
		w.Found = p.findPassedOver(ctx, folders, problems, w.Name, name)
	}
	if len(w.Found) == 0 {
		lock, err := p.plugins.lock()
		if err != nil {
			lock = &install.Lock{} // readInstalled says so
		}
		w.Found = unusedPlugins{env: p.options.Env, root: p.root, lock: lock, used: p.plugins.used,
			enabled: p.config.Settings.EnabledPlugins, problems: p.plugins.problems,
			bare: p.options.Bare || p.options.NoSkills}.find(ctx, w.Name)
	}
	servers, leftOut := p.Servers()
	for _, x := range slices.Concat(p.servers.InFiles, leftOut) {
		at := knack.Location{Kind: knack.MCP, Path: x.Path, Unasked: x.Message}
		if x.Hint != "" {
			at.Unasked += " (" + x.Hint + ")"
		}
		if !slices.Contains(w.Locations, at) {
			w.Locations = append(w.Locations, at)
		}
	}
	for _, s := range servers {
		if !slices.ContainsFunc(w.Locations, func(at knack.Location) bool { return at.Label == s.Name }) {
			w.Locations = append(w.Locations, knack.Location{Kind: knack.MCP, Label: s.Name,
				Unasked: "not asked: a conversation starts it"})
		}
	}
	switch {
	case len(w.Found) > 0:
		w.Near = nil
	case filepath.IsAbs(name) && filepath.Dir(name) != string(filepath.Separator): // not /NAME
		w.Name = name
	}
	for _, x := range problems {
		if slices.ContainsFunc(w.Found, func(f knack.Finding) bool { return f.Path == x.Path && x.Path != "" }) {
			w.Problems = append(w.Problems, x)
		}
	}
	return w
}

// findNested finds a skill in a folder below the working directory that no tool has accessed yet.
func findNested(ctx context.Context, cat *knack.Catalog, below sources.Below, name, path string) ([]knack.Finding,
	[]knack.Problem) {
	own := knack.Load(ctx, below.Folder)
	found := own.Why(name, knack.View{}).Found
	if filepath.IsAbs(path) {
		found = own.Why(path, knack.View{}).Found
	}
	for i := range found {
		f := &found[i]
		f.Line = nil
		comes := "it is offered after a tool touches a file in " + below.Origin.Nested
		switch {
		case below.Ignored != "":
			f.State, f.Reason = knack.Ignored, "an ignore file excludes the directory: "+below.Ignored
		case f.State != knack.Active && f.State != knack.Conditional:
			f.Reason += "; " + comes
		case cat.Skill(f.Name()) != nil:
			f.State, f.Reason = knack.Conditional, fmt.Sprintf("%s, as %s:%s, because there is a skill %s already", comes,
				below.Origin.Nested, f.Name(), f.Name())
		default:
			f.State, f.Reason = knack.Conditional, comes
		}
	}
	return found, own.Problems()
}

// findExcluded finds what an ignore file excludes from a folder.
func findExcluded(ctx context.Context, folder *knack.Folder, name, path string) (found []knack.Finding) {
	for _, x := range folder.Excluded(ctx) {
		f := knack.Finding{Candidate: knack.Candidate{Path: x.Path, Origin: folder.Origin, State: knack.Ignored},
			State: knack.Ignored,
			As:    "name", Reason: "an ignore file in " + folder.Path + " leaves it out: " + x.By}
		switch {
		case x.Path == path:
			f.As = "path"
		case f.Name() != name:
			continue
		}
		found = append(found, f)
	}
	return found
}

// findMisplaced finds what looks like a skill of the name but is none: a directory without a SKILL.md, a file in the
// place of a directory, or a skill where skills are not searched. path is the name as it was typed.
func (p *Project) findMisplaced(folders []knack.Source, name, path string) (found []knack.Finding) {
	add := func(at string, o knack.Origin, state knack.SkillState, reason string) {
		if !slices.ContainsFunc(found, func(f knack.Finding) bool { return f.Path == at }) {
			found = append(found, knack.Finding{Candidate: knack.Candidate{Path: at, Origin: o, State: state}, State: state,
				As: "name", Reason: reason})
		}
	}
	if !filepath.IsAbs(path) && (name == "" || filepath.Base(name) != name) {
		return nil
	}
	for _, src := range folders {
		f, ok := src.(*knack.Folder)
		if !ok || f.Commands {
			continue
		}
		dir := filepath.Join(f.Path, name)
		if filepath.IsAbs(path) {
			if dir = path; filepath.Dir(path) != f.Path {
				continue
			}
		}
		file := strings.TrimSuffix(dir, ".md") + ".md"
		if entries, err := os.ReadDir(dir); err == nil {
			if nested, err := knack.FindSkills(dir); err == nil && len(nested) > 0 {
				continue // a directory of skills
			}
			reason := "the directory has no SKILL.md"
			for _, e := range entries {
				if n := e.Name(); !e.IsDir() && similar.Near(n, "SKILL.md", 2) {
					reason += "; rename " + n
				}
			}
			add(dir, f.Origin, knack.Broken, reason)
		} else if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			dir, base := strings.TrimSuffix(file, ".md"), filepath.Base(file)
			add(file, f.Origin, knack.Broken, fmt.Sprintf("a skill is a directory: move %s to %s", base,
				filepath.Join(filepath.Base(dir), "SKILL.md")))
		}
	}
	for _, dir := range []string{".", "skills", filepath.Join(".claude", "skill"), filepath.Join(".agents", "skill")} {
		at := filepath.Join(p.dir, dir, name)
		if filepath.IsAbs(path) {
			continue
		}
		if all, err := knack.FindSkills(at); err == nil && len(all) == 1 && all[0] == at {
			add(filepath.Join(at, "SKILL.md"), knack.Origin{Kind: knack.Project}, knack.Ignored,
				"skills in "+filepath.Dir(at)+" are not used without --skill "+filepath.Dir(at))
		}
	}
	return found
}

// findPassedOver finds skills of a name in directories that a search passes over: those of other programs, of packages,
// those whose name begins with a dot, and those that are too deep, which are among the problems. path is the name as it
// was typed.
func (p *Project) findPassedOver(ctx context.Context, folders []knack.Source, problems []knack.Problem,
	name, path string) (found []knack.Finding) {
	if filepath.IsAbs(path) && strings.HasPrefix(filepath.Base(path), ".") { // .NAME, which looks like a path
		name = filepath.Base(path)
	}
	if name == "" || filepath.Base(name) != name {
		return nil
	}
	in := func(dir, why string) {
		all, err := knack.FindSkills(dir)
		if err != nil {
			return
		}
		for _, at := range all {
			if isCalled(ctx, at, name) && !slices.ContainsFunc(found, func(f knack.Finding) bool {
				return f.Path == filepath.Join(at, "SKILL.md")
			}) {
				found = append(found, knack.Finding{As: "name", State: knack.Ignored,
					Candidate: knack.Candidate{Path: filepath.Join(at, "SKILL.md"), State: knack.Ignored,
						Origin: knack.Origin{Kind: knack.Project}},
					Reason: why + " is not searched; --skill " + at + " uses it"})
			}
		}
	}
	dotted := func(dir string) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.IsDir() && strings.HasPrefix(e.Name(), ".") && e.Name() != ".git" &&
				!slices.Contains(layout.Folders(), e.Name()) && e.Name() != ".github" {
				in(filepath.Join(dir, e.Name()), "a directory whose name begins with a dot")
			}
		}
	}
	for _, dir := range layout.Dirs(p.dir, p.root) {
		for _, place := range layout.Foreign() {
			in(filepath.Join(dir, filepath.FromSlash(place)), place)
		}
		dotted(dir)
		packages, _ := os.ReadDir(filepath.Join(dir, "node_modules"))
		for _, e := range packages[:min(len(packages), maxPackages)] {
			pkg := filepath.Join(dir, "node_modules", e.Name())
			for _, place := range append(layout.Folders(), ".") {
				in(filepath.Join(pkg, place, "skills"), "node_modules")
			}
		}
	}
	for _, src := range folders {
		if f, ok := src.(*knack.Folder); ok {
			dotted(f.Path)
		}
	}
	for _, x := range problems {
		if x.Code == knack.CodeNotSearched {
			in(x.Path, "a directory that is so deep")
		}
	}
	for dir := filepath.Dir(p.root); dir != filepath.Dir(dir) && dir != p.options.Env.Home(); dir = filepath.Dir(dir) {
		for _, place := range layout.Folders() {
			in(filepath.Join(dir, place, "skills"), "a directory above the repository")
		}
	}
	for _, d := range config.OtherDirs() {
		if home := p.options.Env.Home(); home != "" && d.Home != "" {
			for _, place := range []string{"skills", "skill"} {
				at := filepath.Join(home, filepath.FromSlash(d.Home), place)
				in(at, at)
			}
		}
	}
	return found
}

// isCalled reports whether a skill is called by a name: that in its file, or that of its directory, also without a dot.
func isCalled(ctx context.Context, dir, name string) bool {
	if base := filepath.Base(dir); base == name || base == "."+name {
		return true
	}
	s, _ := knack.Check(ctx, dir)
	return s != nil && (s.Name == name || s.Label == name)
}

// maxPackages limits in how many packages of node_modules a skill is looked for.
const maxPackages = 2000

// Nested returns the skill folders below the working directory that become available when a tool
// accesses the given paths.
func (p *Project) Nested(paths ...string) []knack.Source {
	return sources.NewNested(p.dir, p.sourceOptions).Find(paths...)
}

// WriteWhy writes, for people to read, why a skill is available or not.
func (p *Project) WriteWhy(w io.Writer, why knack.Why) {
	name := plain.Line(why.Name)
	switch n := len(why.Found); {
	case n == 0:
		fmt.Fprintf(w, "No skill is called %s.", name)
		if len(why.Near) > 0 {
			fmt.Fprintf(w, " Did you mean %s?", plain.Line(strings.Join(why.Near, ", ")))
		}
		fmt.Fprintln(w)
		if text := WhyTool(p.known().tools, p.problems, why.Name); text != "" {
			fmt.Fprintln(w, p.ShortIn(text))
		}
	case n > 1:
		fmt.Fprintf(w, "%d skills match %s.\n", n, name)
	}
	for _, f := range why.Found {
		fmt.Fprintf(w, "\n%s  %s, %s", plain.Line(f.Name()), SourceName(f.Origin), f.State)
		if f.As != "name" {
			as := map[string]string{"alias": "alias", "label": "label", "part": "last part", "path": "path",
				"prefix": "name with the prefix of a plugin that is not installed"}
			fmt.Fprintf(w, " (%s is its %s)", name, as[f.As])
		}
		fmt.Fprintf(w, "\n  file       %s\n  because    %s\n", plain.Line(p.Short(f.Path)), plain.Line(p.ShortIn(f.Reason)))
		if f.Skill == nil || f.Winner != nil {
			continue
		}
		switch l := f.Line; {
		case l == nil:
			fmt.Fprintln(w, "  the model  does not see it")
		case l.Cut == knack.CutOmitted:
			fmt.Fprintln(w, "  the model  sees it only with find: there are more than 2,000 skills")
		case l.Cut == knack.Whole:
			fmt.Fprintf(w, "  the model  sees %s\n", plain.Line(l.Text))
		default:
			fmt.Fprintf(w, "  the model  sees %d of %d characters (%s): %s\n", l.Chars, l.Full, CutReason(l.Cut),
				plain.Line(l.Text))
		}
		for _, a := range p.Asks(f.Skill) {
			fmt.Fprintf(w, "  asks for   %s\n", a)
		}
	}
	if len(why.Problems) > 0 {
		fmt.Fprintln(w, "\nProblems:")
		for _, x := range why.Problems {
			fmt.Fprintf(w, "  %s: %s\n", x.Severity, p.ShortProblem(x))
			if x.Hint != "" && x.Hint != "knack skill why "+why.Called() { // a hint to run this very command
				fmt.Fprintf(w, "    hint: %s\n", plain.Line(x.Hint))
			}
		}
	}
	fmt.Fprintln(w, "\nSearched in this order; the first skill of a name is used:")
	for _, at := range why.Locations {
		what := fmt.Sprintf("%d skills", at.Skills)
		switch {
		case at.Unasked != "":
			what = at.Unasked
		case at.Missing:
			what = "not there"
		case at.Skills == 1:
			what = "1 skill"
		}
		if at.Trust != knack.Trusted && at.Skills > 0 {
			what += ", " + TrustName(at.Trust)
		}
		path := at.Path
		if path == "" {
			path = "(" + cmp.Or(at.Label, "in the program") + ")"
		}
		fmt.Fprintf(w, "  %-14s %s: %s\n", at.Kind, plain.Line(p.Short(path)), what)
	}
}

// WhyTool returns one line of untrusted text that says where the tool of a name comes from, or why a tool of the user's
// own is left out; "": the name is that of neither.
func WhyTool(tools tool.Set, problems []knack.Problem, name string) string {
	if t, ok := tools.Find(name); ok {
		return plain.Line(fmt.Sprintf("%s is a tool: %s.", t.Name, cmp.Or(t.Origin, "Knack's own")))
	}
	for _, x := range problems {
		file, _, _ := strings.Cut(filepath.Base(x.Path), ".")
		if file == name && filepath.Base(filepath.Dir(x.Path)) == "tools" {
			return plain.Line(fmt.Sprintf("%s would be a tool: %s (%s)", name, x.Message, x.Path))
		}
	}
	return ""
}

// CutReason describes, for display, why a listing entry was shortened.
func CutReason(c knack.Cut) string {
	return map[knack.Cut]string{
		knack.CutEntry:    "longer than the limit for one entry",
		knack.CutShare:    "an even share of the budget",
		knack.CutFloor:    "60 characters: the budget is short",
		knack.CutText:     "name only: the budget is used up",
		knack.CutOverride: "name only, by skills.overrides",
		knack.CutOmitted:  "not listed: there are more than 2,000 skills",
	}[c]
}

// Asks lists what activating a skill would grant or change.
func (p *Project) Asks(s *knack.Skill) []string {
	var all []string
	add := func(format string, value string) {
		if value != "" {
			all = append(all, fmt.Sprintf(format, plain.Line(value)))
		}
	}
	for _, t := range s.AllowedTools {
		switch rule, err := permission.ParseRule(t, ""); {
		case err != nil || !rule.Broad() || !isForeign(s.Origin.Kind) || gate.HasAllowRule(p.config.Rules, s.Name):
			add("allow %s", t)
		case p.ruleAccepted(s, t):
			add("allow %s (you accepted it for its files as they are)", t)
		default:
			add("allow %s (not granted: "+strings.ReplaceAll(broadRule(s), "%", "%%")+")", t)
		}
	}
	for _, t := range s.DisallowedTools {
		add("deny %s", t)
	}
	add("model %s", s.Model)
	add("effort %s", s.Effort)
	if s.Fork {
		agent := s.Agent
		if agent == "" {
			agent = "general-purpose"
		}
		add("a sub-agent: %s", agent)
	}
	for _, b := range p.sandboxes[s.Name] {
		add("commands (settings): %s", b.String())
	}
	if s.Sandbox != nil {
		add("commands: %s", s.Sandbox.String())
	}
	add("hooks %s", string(s.Hooks))
	return all
}

// ruleAccepted reports whether the user accepted a rule for the skill in its current form.
func (p *Project) ruleAccepted(s *knack.Skill, rule string) bool {
	path, hash, err := p.trust.SkillContent(s)
	return err == nil && p.trust.Granted(path, hash, []string{rule})
}

// TrustName returns the name of a trust level: untrusted, remote or trusted.
func TrustName(t knack.Trust) string {
	return [...]string{knack.Untrusted: "untrusted", knack.Remote: "remote", knack.Trusted: "trusted"}[t]
}

// SourceName describes an origin: its kind, and the plugin or server.
func SourceName(o knack.Origin) string {
	if o.Label != "" {
		return string(o.Kind) + ":" + plain.Line(o.Label)
	}
	return string(o.Kind)
}
