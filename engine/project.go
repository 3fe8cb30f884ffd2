package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/bundled"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/engine/project/instructions"
	"github.com/knack-agent/knack/engine/project/trust"
	"github.com/knack-agent/knack/engine/serverfiles"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/similar"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/mcp"
	"github.com/knack-agent/knack/sources"
)

// A Project is everything that a directory and its user provide: settings, trust, places of skills,
// templates, agents and hooks. It is immutable and safe for concurrent use; to see changes, load a new
// one.
type Project struct {
	Brought Brought // what parts find; it must not be changed

	options       Options
	dir           string // absolute
	root          string
	home          string
	trust         *trust.Project
	addedTrust    []*trust.Project // of the projects that contain Options.AddDirs; see trustOf
	config        *config.Config
	sourceOptions sources.Options
	sources       []knack.Source
	bundled       *bundled.Set
	view          knack.View // how skills are listed
	usage         SkillUsage

	hooks        []hook.Hook // from the settings
	hookProblems []knack.Problem
	own          userHooks

	sandboxes       map[string][]*knack.Restrictions // from the settings, by skill
	sandboxProblems []knack.Problem

	plugins Plugins

	foreign Foreign

	texts     instructions.Options
	templates []knack.SlashCommand
	agents    []agent.Definition
	problems  []knack.Problem // in templates and agents

	servers *serverfiles.Definitions

	passedOver func() []knack.Problem // see searchOthers; computed once
	known      func() known           // computed once
}

// Load reads what a directory provides. It opens no model or workspace, and reads no skill.
func Load(ctx context.Context, o Options) (*Project, error) {
	p := &Project{options: o}
	p.own.project, p.foreign.project = p, p
	p.passedOver = sync.OnceValue(func() []knack.Problem { return searchOthers(p) })
	p.known = sync.OnceValue(func() known { return knownOf(p.Brought, o.Parts) })
	env := o.Env
	var err error
	if o.Dir == "" {
		p.dir, err = os.Getwd()
	} else {
		p.dir, err = filepath.Abs(o.Dir)
		for _, paths := range []*[]string{&o.Skills, &o.AddDirs, &o.Templates, &o.Settings, &o.MCPConfig} {
			*paths = absolutePaths(p.dir, *paths)
		}
		p.options = o
	}
	if err != nil {
		return nil, err
	}
	if err := env.CheckPrivate(); err != nil {
		return nil, err
	}
	if info, err := os.Stat(p.dir); err != nil || !info.IsDir() {
		return nil, &Error{Err: fmt.Errorf("%s: no such directory", plain.Line(p.dir)), Exit: ExitUsage}
	}
	for _, path := range slices.Concat(o.Skills, o.AddDirs, o.Templates) {
		if _, err := os.Stat(path); err != nil {
			return nil, Usagef("ls "+filepath.Dir(path), "%s: no such file or directory", plain.Line(path))
		}
	}
	for _, dir := range o.AddDirs {
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return nil, Usagef("name a directory that exists", "%s is not a directory", plain.Line(dir))
		}
	}
	var servers []serverfiles.Given
	for _, text := range o.MCPConfig {
		c, err := serverfiles.Read(text, o.Given)
		if err != nil {
			return nil, &Error{Err: err, Hint: "knack mcp --help", Exit: ExitUsage}
		}
		servers = append(servers, c)
	}
	for _, layer := range o.Layers {
		if layer != "user" && layer != "project" && layer != "local" {
			return nil, Usagef("", "unknown layer %q of settings: there are user, project and local", layer)
		}
	}
	p.home = env.Home()
	p.root = sources.Root(p.dir)
	if p.trust, err = openTrust(env, p.dir, o.Trust, o.Parts); err != nil {
		return nil, err
	}
	p.Brought.Check = p.trust.Check
	p.Brought.CheckSkill = func(k *knack.Skill) (check func(file string, data []byte) error, err error) {
		switch k.Origin.Kind {
		case knack.Project, knack.Additional:
			check = trustOf(p, k.Path).CheckIn(k.Dir)
		case knack.Plugin:
			check = checkOf(p.plugins.used, k.Origin.Label, k.Name)
		}
		return check, p.verify(k)
	}
	p.Brought.Names = func() []string { return KnownTools(o.Parts...).AllNames() }
	p.Brought.CommandNames = func() (names []string) {
		for _, c := range programCommands(o) {
			if c.Instead == "" {
				names = append(append(names, c.Name), c.Also...)
			}
		}
		return names
	}
	p.Brought.kept = &keptFinds{}
	if !o.Bare && p.hasLayer("user") {
		p.Brought.User = env.ConfigDir()
	}
	if !o.Bare && p.hasLayer("project") {
		p.Brought.Dirs = layout.Dirs(p.dir, p.root)
	}
	for _, dir := range o.AddDirs {
		added, err := openTrust(env, dir, o.Trust, o.Parts)
		if err != nil {
			return nil, err
		}
		p.addedTrust = append(p.addedTrust, added)
	}
	var above []permission.Limits
	for _, text := range o.Above {
		l, err := permission.ParseLimits(text)
		if err != nil {
			return nil, Usagef("run knack outside of the command", "a command of another session runs this, and what that "+
				"session allows is not known: %w", err)
		}
		above = append(above, l)
	}
	settings := config.Options{
		Given:   o.Given,
		Managed: managedDirs(o), Dir: p.dir, Root: p.root,
		Folders: func(folders []string) {
			if !o.Trust && within(p.root, folders, p.home) {
				o.Trust, p.options.Trust = true, true
				p.trust.Once()
			}
		},
		Tools: func() []string { return p.known().names() }, Policy: o.Policy, Above: above, Settings: o.Settings,
		Flags: o.Values, Bare: o.NoSettings, Check: p.trust.Check,
		ConfigHome: env.ConfigDir(), ClaudeHome: env.ClaudeDir(), PiHome: env.PiDir(),
		Home: p.home,
	}
	if !p.hasLayer("user") {
		settings.ConfigHome, settings.ClaudeHome, settings.PiHome = "", "", ""
	}
	if !p.hasLayer("project") {
		settings.Root = ""
	}
	p.config, err = config.Load(settings)
	if err != nil {
		return nil, &Error{Err: err, Hint: "knack help settings", Exit: ExitUsage}
	}
	if err := sideloads(p.config, o); err != nil {
		return nil, err
	}
	audited, err := AuditFile(p.config.Settings.Audit.File, p.home)
	if err != nil {
		return nil, err
	}
	rules, err := auditRules(audited)
	if err != nil {
		return nil, err
	}
	p.config.Rules.Deny = append(p.config.Rules.Deny, rules...)
	for _, dir := range p.Roots() {
		if err := p.checkRoot(dir); err != nil {
			return nil, err
		}
	}
	p.sandboxes, p.sandboxProblems = skillSandboxes(p.config.Raw["sandbox.skills"])
	p.usage = ReadUsage(env)
	p.plugins.project = p
	if err := p.plugins.read(); err != nil {
		return nil, err
	}
	if plugins := dirsOf(p.plugins.used); len(plugins) > 0 { // settings were checked without their tools
		p.Brought.Plugins = plugins
		p.known = sync.OnceValue(func() known { return knownOf(p.Brought, o.Parts) })
	}
	if p.Brought.Kit, err = kitOf(p.Brought, o.Kit); err != nil {
		return nil, err
	}
	p.Brought.Kit.settings(p.config, o.Values)
	if !o.Bare {
		if err := p.readHooks(); err != nil {
			return nil, &Error{Err: err, Hint: "knack help hooks", Exit: ExitUsage}
		}
	}
	p.foreign.read()
	p.servers = serverfiles.New(p.serverOptions(servers))
	p.findSources(ctx)
	p.findTemplates()
	p.setView()
	return p, nil
}

// serverOptions says where MCP servers of the project and its user are defined.
func (p *Project) serverOptions(given []serverfiles.Given) serverfiles.Options {
	o := serverfiles.Options{Config: p.config, Trust: p.trust, Dir: p.dir, Root: p.root, Given: given,
		Managed: sources.ManagedDirs(runtime.GOOS), Plugins: p.plugins.servers,
		Strict:  p.options.StrictMCP || p.options.Bare,
		Project: !p.options.NoSettings && p.hasLayer("project")}
	if !p.options.NoSettings && p.hasLayer("user") {
		o.Claude = claudeServers(p.options.Env, p.home)
		if pi := p.options.Env.PiDir(); pi != "" {
			o.Pi = filepath.Join(pi, "mcp.json")
		}
	}
	return o
}

// claudeServers is the file in which Claude Code keeps the user's servers; "": there is no home.
func claudeServers(env Env, home string) string {
	if dir := env.Get("CLAUDE_CONFIG_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, ".claude.json")
	}
	if home == "" {
		return ""
	}
	return filepath.Join(home, ".claude.json")
}

// Servers returns the MCP servers that the directory and its user define; of those with the same name, the one with the
// highest precedence, as far as they are in the Kit that is used. The problems are about servers that are left out.
func (p *Project) Servers() ([]mcp.Server, []knack.Problem) {
	all, problems := p.servers.Servers()
	return p.Brought.Kit.servers(all), problems
}

// sideloads refuses what the command line brings along if an administrator does not want that.
func sideloads(c *config.Config, o Options) error {
	at, ok := c.HeldBy("disableSideloadFlags")
	if !ok {
		return nil
	}
	for flag, given := range map[string]int{"--plugin-dir": len(o.Plugins), "--agents": len(o.Agents),
		"--mcp-config": len(o.MCPConfig)} {
		if given > 0 {
			return Usagef("", "%s is refused: disableSideloadFlags is set in %s", flag, plain.Line(at.Path))
		}
	}
	return nil
}

// Roots returns the directories that tools may use as they may use the working directory: those of the settings and of
// Options.AddDirs.
func (p *Project) Roots() []string {
	all := slices.Clone(p.config.Settings.Permissions.AdditionalDirectories)
	for _, dir := range p.options.AddDirs {
		if real := realPath(dir); !slices.Contains(all, real) {
			all = append(all, real)
		}
	}
	return all
}

// checkRoot refuses a directory that would give access to everything, or to Knack's own files.
func (p *Project) checkRoot(dir string) error {
	what := tooMuch(p, dir)
	if what == "" {
		return nil
	}
	return Usagef("name a directory inside it", "%s cannot be an additional directory: it is %s", plain.Line(dir), what)
}

// tooMuch says what is wrong with writing in a directory: it is everything, or has Knack's own files; "" if nothing is.
func tooMuch(p *Project, dir string) (what string) {
	real := realPath(dir)
	switch {
	case real == filepath.Dir(real):
		what = "the root of the file system"
	case p.home != "" && real == realPath(p.home):
		what = "the home directory"
	}
	for _, own := range p.options.Env.OwnDirs() {
		if what == "" && (subpath.Contains(real, own) || subpath.Contains(real, realPath(own))) {
			what = "a directory that contains Knack's own files (" + plain.Line(own) + ")"
		}
	}
	return what
}

// hasLayer reports whether a layer is among Options.Layers.
func (p *Project) hasLayer(layer string) bool {
	return p.options.Layers == nil || slices.Contains(p.options.Layers, layer)
}

// outside returns the paths that are not in a project: what a project's files say needs trust, whoever names them.
func outside(root string, paths []string) (all []string) {
	for _, path := range paths {
		if _, err := os.Stat(path); err == nil && !subpath.Contains(realPath(root), realPath(path)) {
			all = append(all, path)
		}
	}
	return all
}

// absolutePaths makes relative paths start at dir. Settings given as JSON are left unchanged.
func absolutePaths(dir string, paths []string) []string {
	all := slices.Clone(paths)
	for i, p := range all {
		if !filepath.IsAbs(p) && !strings.HasPrefix(strings.TrimSpace(p), "{") {
			all[i] = filepath.Join(dir, p)
		}
	}
	return all
}

// findSources finds the sources of skills.
func (p *Project) findSources(ctx context.Context) {
	o, env := &p.options, p.options.Env
	s := sources.FromEnv(env.Get)
	s.Cache = env.StateFile("cache")
	s.Skills, s.AddDirs, s.Bare, s.NoSkills = unpacked(p, o.Skills), o.AddDirs, o.Bare, o.NoSkills
	if !o.Bare {
		s.Skills = append(s.Skills, slices.DeleteFunc(outside(p.root, p.config.Foreign.Skills), s.OfUser)...)
	}
	s.NoUser, s.NoProject = !p.hasLayer("user"), !p.hasLayer("project")
	for _, k := range p.config.Settings.Skills.Order {
		s.Order = append(s.Order, knack.SourceKind(k))
	}
	place := permission.PathContext{Dir: p.dir, Home: p.home, Own: env.OwnDirs()}
	closed, secret := closedFiles(p.config, place), place.SecretFunc()
	s.Check = func(path string, data []byte, head bool) error {
		if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 && secret(realPath(path)) {
			return errors.New("it links to a file that contains secrets")
		}
		if closed != nil && (closed(path) || closed(realPath(path))) {
			return errors.New("a rule for reading denies it, or would ask about it")
		}
		t := trustOf(p, path)
		if head {
			return inAdded(p, t, t.CheckHead(path, data))
		}
		return inAdded(p, t, t.Check(path, data))
	}
	s.Replaces = func(path, name string) bool { return trustOf(p, path).Replaces(path, name) }
	s.Trust = func(_ knack.SourceKind, dir string) knack.Trust {
		if dir = realPath(dir); trustOf(p, dir).Links(dir) {
			return knack.Trusted
		}
		return knack.Untrusted
	}
	if p.config.OnlyPlugins("skills") {
		s.NoUser, s.NoProject, s.Skills, s.AddDirs = true, true, nil, nil
	}
	p.bundled = bundled.New(env.StateHome(), p.Version())
	p.bundled.Features = features(p.config, env.Get("KNACK_FEATURES"))
	p.bundled.Off = p.plugins.switchedOff()
	addSkills(o.Parts, p.bundled)
	skills := bundledSkills{p}
	p.bundled.Found, p.bundled.Before = skills.gateOpen, skills.prepended()
	s.Plugins = p.plugins.sources()
	if _, off := p.config.HeldBy("disableBundledSkills"); !off {
		s.Bundled = []knack.Source{p.bundled}
	}
	p.sourceOptions = s
	p.sources = slices.Concat(sources.Default(ctx, p.dir, s), o.Sources)
	for _, b := range builtinPlugins(o.Plugged) {
		if p.plugins.uses(b) {
			p.sources = append(p.sources, b.more.Sources...)
		}
	}
	p.sources = append(p.sources, installedNames{p})
}

// closedFiles returns what reports whether rules deny the model to read a file, or would ask; nil: they close none.
func closedFiles(c *config.Config, place permission.PathContext) func(path string) bool {
	return c.Rules.Closed(c.Settings.Permissions.DefaultMode, place, permission.Subject{Tool: "read"})
}

// findTemplates finds templates and agents.
func (p *Project) findTemplates() {
	o, env := &p.options, p.options.Env
	place := permission.PathContext{Dir: p.dir, Home: p.home, Own: env.OwnDirs()}
	p.texts = instructions.Options{Secret: place.SecretFunc(), Check: p.trust.Check, Templates: o.Templates,
		Closed: closedFiles(p.config, place), Tools: func() []string { return p.known().names() }}
	if !o.Bare {
		p.texts.Dir, p.texts.Root, p.texts.Home = p.dir, p.root, p.home
		p.texts.ConfigHome, p.texts.ClaudeHome = env.ConfigDir(), env.ClaudeDir()
	}
	if !p.hasLayer("user") {
		p.texts.Home, p.texts.ConfigHome, p.texts.ClaudeHome = "", "", ""
	}
	if !p.hasLayer("project") {
		p.texts.Dir, p.texts.Root = "", ""
	}
	p.texts.Style, p.texts.Language = p.config.Settings.OutputStyle, p.config.Settings.Language
	p.texts.NoLocal = !p.hasLayer("local")
	p.texts.Managed = sources.ManagedDirs(runtime.GOOS)
	p.texts.Plugins = templates(p.plugins.used)
	if !o.Bare {
		p.texts.Templates = slices.Concat(o.Templates, outside(p.root, p.config.Foreign.Prompts))
	}
	var bad, more []knack.Problem
	p.templates, bad = instructions.Templates(p.texts)
	if p.config.OnlyPlugins("skills") {
		p.templates = nil
	}
	texts := p.texts
	if p.config.OnlyPlugins("agents") {
		texts.Dir, texts.Root, texts.Home, texts.ConfigHome, texts.ClaudeHome = "", "", "", "", ""
	}
	p.agents, more = instructions.Agents(texts, o.Agents)
	plugins, worse := p.plugins.agents()
	p.agents = slices.Concat(p.agents, plugins, agent.BuiltIn(), o.BuiltIn)
	p.problems = slices.Concat(p.problems, bad, more, worse)
	for _, x := range p.options.Parts {
		if x.Problems != nil {
			p.problems = append(p.problems, x.Problems(p.Brought)...)
		}
	}
}

func (p *Project) setView() {
	set := &p.config.Settings
	p.view = knack.View{
		For: knack.ByModel, Window: p.options.Window, Dir: p.root, Index: p.options.Index,
		Budget: set.Skills.ListingBudget, MaxChars: set.Skills.ListingMaxChars,
		Used: p.usage.Order(),
	}
	for name, state := range set.Skills.Overrides {
		if p.view.Overrides == nil {
			p.view.Overrides = map[string]knack.SkillState{}
		}
		p.view.Overrides[name] = knack.SkillState(state)
	}
	// 0 and text that is not a number count as not set.
	if n, err := strconv.Atoi(p.options.Env.Get("SLASH_COMMAND_TOOL_CHAR_BUDGET")); err == nil && n > 1 {
		p.view.Budget = float64(n)
	}
}

// features returns the features that settings and the environment turn on or off. The environment turns on what
// settings do not turn off.
func features(settings *config.Config, env string) map[string]bool {
	all := maps.Clone(settings.Settings.Features)
	for _, name := range strings.FieldsFunc(env, func(r rune) bool { return r == ',' || r == ' ' }) {
		if all == nil {
			all = map[string]bool{}
		}
		if _, given := all[name]; !given {
			all[name] = true
		}
	}
	return all
}

// unknownFeatures reports names of features that turn nothing on or off.
func unknownFeatures(p *Project) (problems []knack.Problem) {
	if len(p.options.Sources) > 0 {
		return nil // a host's skills may have features of their own
	}
	all := p.bundled.FeatureNames()
	for _, name := range p.bundled.UnknownFeatures() {
		x := knack.Problem{Code: knack.CodeUnknownKey, Severity: knack.Warn,
			Message: fmt.Sprintf("there is no feature %q", plain.Line(name)),
			Hint:    "the features are " + strings.Join(all, ", ")}
		if near := similar.Names(name, all); len(near) > 0 {
			x.Message += "; did you mean " + near[0] + "?"
		}
		if at := p.config.Where("features." + name); len(at) > 0 {
			x.Path, x.Line, x.Column = at[0].Path, at[0].Line, at[0].Column
		} else {
			x.Message = "KNACK_FEATURES: " + x.Message
		}
		problems = append(problems, x)
	}
	return problems
}

// KeyBindings returns the file with the user's key bindings, which need not exist; "": there is no user.
func KeyBindings(env Env) string {
	if dir := env.ConfigDir(); dir != "" {
		return filepath.Join(dir, "keybindings.json")
	}
	return ""
}

// ClaudeKeyBindings returns the file with the user's key bindings for Claude Code, which need not exist; "": there is
// no user.
func ClaudeKeyBindings(env Env) string {
	if dir := env.ClaudeDir(); dir != "" {
		return filepath.Join(dir, "keybindings.json")
	}
	return ""
}

// A Style is an output style.
type Style = instructions.Style

// Styles returns the output styles that the user and the project provide.
func (p *Project) Styles() []Style { return instructions.Styles(p.texts) }

// Close removes the files that bundled skills were extracted to.
func (p *Project) Close() error { return p.bundled.Close() }

// Dir is the working directory, absolute.
func (p *Project) Dir() string { return p.dir }

// Root is the root of the repository that contains Dir, or Dir if there is none.
func (p *Project) Root() string { return p.root }

// Version is the version of the program.
func (p *Project) Version() string {
	if p.options.Version == "" {
		return "devel"
	}
	return p.options.Version
}

// Sources returns the sources of skills, in order of precedence.
func (p *Project) Sources() []knack.Source { return slices.Clone(p.sources) }

// Foreign returns what counts of other programs' settings.
func (p *Project) Foreign() *Foreign { return &p.foreign }

// Rules returns the permission rules of the settings.
func (p *Project) Rules() permission.Rules { return p.config.Rules }

// Settings are the merged settings that front ends need.
type Settings struct {
	Model         string // "": the default of the first provider
	Effort        string // "": the model's default
	Sandbox       string // the sandbox.mode
	DisableBypass bool   // forbid the permission mode bypassPermissions
	DisableShell  bool   // forbid inline commands of skills
	// EnforceAllowedTools is skills.enforceAllowedTools; "": a skill's rules only allow.
	EnforceAllowedTools string
	Theme               string // of the screen
	EditorMode          string // of the screen: normal or vim; "": normal
	Notify              string // how to notify the user when something needs an answer
	OutputStyle         string // "": none
	WorktreeInclude     []string
}

// Settings returns the project's settings for front ends.
func (p *Project) Settings() Settings {
	s := p.config.Settings
	return Settings{
		Model: s.Model, Effort: s.Effort, Sandbox: s.Sandbox.Mode,
		DisableBypass: s.Permissions.DisableBypass != "", DisableShell: s.Skills.DisableShell,
		EnforceAllowedTools: string(s.Skills.EnforceAllowedTools), Theme: s.Theme, Notify: s.Notify,
		EditorMode: s.EditorMode, OutputStyle: s.OutputStyle, WorktreeInclude: s.Worktree.Include,
	}
}

// View returns how skills are listed.
func (p *Project) View() knack.View { return p.view }

// viewOf returns how skills are listed in a session that can use only some of them; nil: all.
func (p *Project) viewOf(only []string) knack.View {
	return p.Brought.Kit.view(p.view, only)
}

// Usage reports how often the user has used which skills.
func (p *Project) Usage() SkillUsage { return p.usage }

// Finder returns the search for skills by words. It keeps its index in the state directory.
func (p *Project) Finder() *knack.Finder {
	return &knack.Finder{Dir: p.options.Env.StateFile("index"), Project: p.root}
}

// Env is the environment that the project was loaded with.
func (p *Project) Env() Env { return p.options.Env }

// Templates returns the prompt templates; if several have the same name, the first is used.
func (p *Project) Templates() []knack.SlashCommand { return slices.Clone(p.templates) }

// Agents returns the definitions of agents; if several have the same name, the first is used.
func (p *Project) Agents() []agent.Definition { return slices.Clone(p.agents) }

// Problems returns the problems of settings, skills, templates, agents and hooks, and those of their
// combination: overrides without effect, and names that cannot be typed after a slash. cat is the
// catalogue of the Sources.
func (p *Project) Problems(cat *knack.Catalog) []knack.Problem {
	_, slash := p.commands(cat, p.view, nil)
	var skills []knack.Problem
	for _, k := range cat.Skills() {
		skills = append(append(skills, HookProblems(k)...), SkillProblems(k, p.options.Parts...)...)
	}
	if kit := p.Brought.Kit; kit != nil {
		servers, _ := p.servers.Servers()
		skills = append(skills, kit.missing(cat, servers)...)
	}
	return append(append(problemsOfFiles(p, cat), skills...), slash...)
}

// TextProblems returns the problems of context files, rules and the output style, which a conversation reads when it
// begins.
func (p *Project) TextProblems() []knack.Problem {
	if p.options.Bare {
		return nil
	}
	return instructions.Load(p.texts).Problems
}

// problemsOfFiles returns the problems of everything that the project reads, among them all that trust would resolve.
func problemsOfFiles(p *Project, cat *knack.Catalog) []knack.Problem {
	return slices.Concat(p.options.Env.Problems(), p.config.Problems, p.sandboxProblems, p.plugins.problems,
		p.foreign.problems(), p.hookProblems, p.servers.InFiles, unknownFeatures(p),
		p.ofSkills(cat), p.passedOver(), cat.Overruled(p.view), p.problems, p.options.Problems)
}

// searchOthers reports directories with skills for other programs that are not sources here, in the project and in
// added directories.
func searchOthers(p *Project) (problems []knack.Problem) {
	if p.options.Bare || p.options.NoSkills {
		return nil
	}
	var dirs []string
	if p.hasLayer("project") {
		dirs = layout.Dirs(p.dir, p.root)
	}
	named := absolutePaths(p.dir, slices.Concat(p.options.Skills, p.options.AddDirs))
	for _, dir := range slices.Concat(dirs, absolutePaths(p.dir, p.options.AddDirs)) {
		for _, name := range layout.Foreign() {
			place := filepath.Join(dir, filepath.FromSlash(name))
			if slices.Contains(named, place) {
				continue
			}
			if skills, err := knack.FindSkills(place); err == nil {
				problems = append(problems, knack.Problem{Code: knack.CodeNotSearched, Severity: knack.Warn, Path: place,
					Message: "not searched: " + plain.Count(len(skills), "skill") + " in it",
					Hint:    "to use them: --skill " + plain.Line(place)})
			}
		}
	}
	return problems
}

// ofSkills returns the problems of a catalogue. With --trust, nobody was shown which skills of the project replace
// bundled ones: then it is a warning, which a run prints.
func (p *Project) ofSkills(cat *knack.Catalog) []knack.Problem {
	problems := cat.Problems()
	if !p.options.Trust {
		return problems
	}
	problems = slices.Clone(problems)
	replacing := map[string]bool{}
	for _, k := range cat.Skills() {
		replacing[k.Path] = k.Origin.Replaces
	}
	for i := range problems {
		if x := &problems[i]; x.Code == knack.CodeNameCollision && x.Severity == knack.Info && replacing[x.Path] {
			x.Severity = knack.Warn
		}
	}
	return problems
}

// commands returns everything that can be typed after a slash: the program's commands whose names no skill can have,
// skills, templates, more, and the other commands of the program and of a host (given). If names collide, the first
// wins, and a problem reports it.
func (p *Project) commands(cat *knack.Catalog, v knack.View, given []Command, more ...knack.SlashCommand) (
	[]knack.SlashCommand, []knack.Problem) {
	var first []knack.SlashCommand
	rest, control := slices.Concat(p.templates, more), knack.ControlCommands()
	for _, c := range SlashCommands(slices.Concat(p.Commands(), given)) {
		if slices.Contains(control, c.Name) {
			first = append(first, c)
		} else {
			rest = append(rest, c)
		}
	}
	return cat.Commands(v, first, rest)
}

// reserved returns the names of commands that a model may not call as skills.
func (p *Project) reserved(given []Command) []string {
	names := knack.ControlCommands()
	for _, commands := range [][]Command{p.Commands(), given} {
		for _, c := range commands {
			if c.Instead == "" {
				names = append(names, c.Name)
			}
		}
	}
	return names
}

// usageError returns the first problem with an option of the command line.
func (p *Project) usageError() error {
	for _, x := range p.config.Problems {
		if x.Path == "command line" && x.Severity == knack.Error {
			hint := x.Hint
			if hint == "" {
				hint = "knack --help"
			}
			return Usagef(hint, "%s", x.Message)
		}
	}
	return nil
}
