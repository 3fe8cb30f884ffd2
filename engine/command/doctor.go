package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/llm/models"
	"github.com/knack-agent/knack/run/llm/offline"
)

func doctor(_ context.Context, s *engine.Session, _ string) (engine.Reply, error) {
	x, err := Examine(s.Engine())
	if err != nil {
		return engine.Reply{}, err
	}
	var b strings.Builder
	x.Write(&b, s.Engine().Project())
	return engine.Reply{Text: engine.PromptHint(strings.TrimRight(b.String(), "\n")), Value: x}, nil
}

// A Checkup is what `knack doctor` and /doctor tell.
type Checkup struct {
	Version  string          `json:"version"`
	Go       string          `json:"go"`
	System   string          `json:"system"`
	Dir      string          `json:"dir"`
	Model    string          `json:"model"` // model that a run would use; "": none
	ModelWhy string          `json:"modelProblem,omitempty"`
	Key      string          `json:"key,omitempty"` // whether the model's provider accepts the key; "": it was not asked
	Servers  []models.Usable `json:"servers"`
	Sandbox  sandboxCheckup  `json:"sandbox"`
	Trusted  bool            `json:"trusted"`            // nothing of the project is ignored for lack of trust
	Folder   bool            `json:"folderTrusted"`      // git and other programs follow its configuration
	Terminal *Terminal       `json:"terminal,omitempty"` // nil: not known
	Skills   map[string]int  `json:"skills"`             // number by state
	Off      []offItem       `json:"off"`                // what is not used, and why
	// LanguageServers are those that settings and plugins define.
	LanguageServers []languageServer `json:"languageServers,omitempty"`
	Formatters      []languageServer `json:"formatters,omitempty"`
	// UnusedServers are settings for language servers that are installed.
	UnusedServers []string `json:"unusedServers,omitempty"`
	// Unused are the settings of other programs that have no effect here.
	Unused   []engine.UnusedSettings `json:"unused,omitempty"`
	Problems []knack.Problem         `json:"problems"`

	keyRefused bool
}

type sandboxCheckup struct {
	Mode   sandbox.Mode   `json:"mode"`
	Report sandbox.Report `json:"report"`
	// Caches are those of language tools, and what commands stored in them.
	Caches sandbox.CacheReport `json:"caches"`
	// Hosts are what opens hosts to commands without a question: rules, and names from settings.
	Hosts []string `json:"hosts,omitempty"`
}

// A Terminal is what is known of the terminal.
type Terminal struct {
	Input   bool   `json:"input"`
	Output  bool   `json:"output"`
	Columns int    `json:"columns,omitempty"`
	Type    string `json:"type"`
	Colour  bool   `json:"colour"`
}

type offItem struct {
	Name string `json:"name"`
	Why  string `json:"why"`
}

// unusedKeys returns the keys in the frontmatter of skills and agents that have no effect here, by place and with the
// number of files.
func unusedKeys(p *engine.Project, cat *knack.Catalog) (all []engine.UnusedSettings) {
	counts := map[string]map[string]int{} // by place and key
	add := func(place string, keys []string) {
		for _, key := range keys {
			if counts[place] == nil {
				counts[place] = map[string]int{}
			}
			counts[place][key]++
		}
	}
	for _, x := range cat.Candidates() {
		if x.Skill == nil || x.Origin.Kind == knack.Bundled {
			continue
		}
		place := filepath.Dir(x.Path)
		for _, at := range cat.Locations() {
			if at.Path != "" && subpath.Contains(at.Path, x.Path) {
				place = at.Path
			}
		}
		add(place, x.Skill.Unused())
	}
	for _, d := range p.Agents() {
		add(filepath.Dir(d.Path), d.Unused)
	}
	for _, place := range slices.Sorted(maps.Keys(counts)) {
		u := engine.UnusedSettings{Path: place, Advice: map[string]string{}}
		for _, key := range slices.Sorted(maps.Keys(counts[place])) {
			name := fmt.Sprintf("%s (in %s)", key, plain.Count(counts[place][key], "file"))
			if u.Keys = append(u.Keys, name); key == "tools" {
				u.Advice[name] = "allowed-tools for what needs no question, disallowed-tools for what must not be called"
			}
		}
		all = append(all, u)
	}
	return all
}

// Examine checks what a run in an Engine's directory would use. It contacts no server.
func Examine(e *engine.Engine) (*Checkup, error) {
	p := e.Project()
	cat := ReadSkills(context.Background(), p).Catalog
	x := &Checkup{
		Version: p.Version(), Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Dir: p.Dir(),
		Servers: e.Models().Servers(), Trusted: !e.NeedsTrust(), Folder: e.Trusted(), Skills: map[string]int{},
		Off: []offItem{}, Problems: append([]knack.Problem{}, e.Problems()...), Unused: p.Foreign().Unused(),
	}
	x.LanguageServers, x.Formatters, x.UnusedServers = languageServers(p)
	for _, q := range cat.Problems() {
		if q.Code == knack.CodeChanged && !slices.Contains(x.Problems, q) {
			x.Problems = append(x.Problems, q)
		}
	}
	_, ofServers := p.Servers() // a start reads only the project's files of them
	for _, q := range slices.Concat(ofServers, p.TextProblems()) {
		if !slices.Contains(x.Problems, q) {
			x.Problems = append(x.Problems, q)
		}
	}
	x.Unused = append(x.Unused, unusedKeys(p, cat)...)
	x.Problems = append(x.Problems, e.Models().KeyProblems()...)
	if x.Servers == nil {
		x.Servers = []models.Usable{}
	}
	set := p.Settings()
	// Which models a configured server has is not known without a request to it.
	if name := set.Model; name != "" || len(x.Servers) > 0 {
		x.Model = cmp.Or(name, "the default of "+firstServer(x.Servers))
	} else {
		x.ModelWhy = "there is no key and no local server: knack login, or knack --model offline"
	}
	mode, err := sandbox.ParseMode(cmp.Or(set.Sandbox, "auto"))
	if err != nil {
		return nil, err
	}
	x.Sandbox.Mode = mode
	if mode == sandbox.Off {
		x.Off = append(x.Off, offItem{"sandbox", "sandbox.mode is off"})
	} else {
		policy, err := p.SandboxPolicy(p.Dir())
		if err != nil {
			return nil, err
		}
		box := sandbox.New(policy, mode)
		defer box.Close()
		x.Sandbox.Report, x.Sandbox.Caches = box.Report(), box.CacheReport()
		kept, err := p.TrustReport(context.Background())
		if err != nil {
			return nil, err
		}
		x.Sandbox.Hosts = OpenHosts(policy.Hosts, p.Rules().Allow, kept.Rules)
	}
	for _, s := range cat.Candidates() {
		x.Skills[string(s.State)]++
		switch s.State {
		case knack.FeatureOff, knack.NotTrusted, knack.Off, knack.Broken, knack.Shadowed:
			why := string(s.State)
			if s.Skill != nil && s.Skill.FeatureOff != "" {
				why = s.Skill.FeatureOff
			}
			x.Off = append(x.Off, offItem{"skill " + s.Name(), why})
		}
	}
	if set.DisableBypass {
		x.Off = append(x.Off, offItem{"bypassPermissions", "permissions.disableBypassPermissionsMode is set"})
	}
	if set.DisableShell {
		x.Off = append(x.Off, offItem{"inline commands of skills", "skills.disableShell is set"})
	}
	return x, nil
}

// Try finds the model that a run would use, and asks its provider for the list of its models, with one request of at
// most 5 s, which costs nothing. The error says why a run would fail: there is no model, or its key is refused. A
// provider that could not be asked is no error.
func (x *Checkup) Try(ctx context.Context, e *engine.Engine) error {
	model, err := e.Models().Default(ctx, e.Project().Settings().Model)
	if err != nil {
		if !errors.Is(err, engine.ErrNoModel) {
			x.Model, x.ModelWhy = "", err.Error()
		}
		return err
	}
	id := model.Info().ID
	if id == offline.ID {
		return nil
	}
	x.Model = id
	provider, _, _ := strings.Cut(id, "/")
	_, failed, err := e.Models().List(ctx, provider, true)
	switch err := cmp.Or(err, failed[provider]); {
	case errors.Is(err, models.ErrKeyRefused):
		x.Key, x.keyRefused = "refused by "+provider, true
		hint := "knack login " + provider
		for _, u := range x.Servers {
			if u.Provider == provider && strings.HasSuffix(u.Key, "_KEY") { // a variable; stored keys have a path or place
				hint = "export " + u.Key + "=…, or unset it, and " + hint
			}
		}
		return &engine.Error{Err: err, Hint: hint}
	case err != nil:
		x.Key = "not tested: " + err.Error()
		if failed := (*url.Error)(nil); errors.As(err, &failed) { // it was not reached; others have no list
			x.Problems = append(x.Problems, knack.Problem{Code: knack.CodeModelServer, Severity: knack.Warn,
				Message: "no server answers for the model " + id + ", so a run would fail: " + failed.Err.Error(),
				Hint:    "check its address and the network, or choose another with knack --model"})
		}
	default:
		x.Key = "accepted by " + provider
	}
	return nil
}

// OpenHosts returns what opens hosts to commands without a question: the hosts that settings name, and the rules for hosts
// among the allow rules and among those that answers have kept (Rules of an [engine.TrustReport]). A deny rule may still
// close them.
func OpenHosts(named []string, allow []permission.Rule, kept []string) []string {
	open := slices.Clone(named)
	add := func(rule string) {
		if strings.HasPrefix(rule, "Network") || strings.HasPrefix(rule, "WebFetch(domain:") {
			open = append(open, rule)
		}
	}
	for _, r := range allow {
		if r.Origin != permission.Project { // which opens none
			add(r.String())
		}
	}
	for _, rule := range kept {
		add(rule)
	}
	return open
}

func firstServer(all []models.Usable) string {
	if len(all) == 0 {
		return "the provider"
	}
	return all[0].Provider
}

// Write writes it as text. p is the Project that was examined.
func (x *Checkup) Write(w io.Writer, p *engine.Project) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-10s %s\n", name, fmt.Sprintf(format, args...))
	}
	x.writeProblems(line, p)
	line("model", "%s", cmp.Or(plain.Line(x.Model), x.ModelWhy))
	if x.Key != "" {
		line("key", "%s", plain.Line(x.Key))
	}
	for i, s := range x.Servers {
		name, key := "servers", "no key"
		if i > 0 {
			name = ""
		}
		if s.Key != "" {
			key = "key: " + p.Short(s.Key)
		}
		line(name, "%s at %s (%s)", plain.Line(s.Provider), plain.Line(s.URL), plain.Line(key))
	}
	line("version", "%s (%s, %s)", x.Version, x.Go, x.System)
	line("directory", "%s", plain.Line(p.ShortIn(x.Dir)))
	if x.Sandbox.Mode == sandbox.Off {
		line("sandbox", "off")
	} else {
		line("sandbox", "%s", strings.TrimPrefix(cmp.Or(x.Sandbox.Report.Notice(),
			"complete, by "+x.Sandbox.Report.Backend),
			"the sandbox is "))
		line("network", "Commands ask before they connect to a host. They may always use: %s",
			plain.Line(strings.Join(append([]string{"their own loopback"}, x.Sandbox.Hosts...), ", ")))
		for i, text := range CacheLines(x.Sandbox.Caches) {
			line([]string{"caches", ""}[min(i, 1)], "%s", plain.Line(p.ShortIn(text)))
		}
	}
	x.writeLanguages(line)
	switch {
	case !x.Trusted:
		line("trust", "some of this folder is off until you trust it: knack trust")
	case !x.Folder:
		line("trust", "this folder is not trusted, and nothing in it needs that; git commands ask more often: knack trust")
	default:
		line("trust", "everything here is trusted")
	}
	yes := func(b bool, text, no string) string {
		if b {
			return text
		}
		return no
	}
	if t := x.Terminal; t != nil {
		size := ""
		if t.Columns > 0 {
			size = fmt.Sprintf(", %d columns", t.Columns)
		}
		line("terminal", "%s, %s%s, %s", cmp.Or(plain.Line(t.Type), "TERM is not set"),
			yes(t.Output, "a terminal", "not a terminal"), size, yes(t.Colour, "colours", "no colours"))
	}
	var states []string
	for _, s := range []knack.SkillState{knack.Active, knack.Conditional, knack.NameOnly, knack.UserOnly} {
		if n := x.Skills[string(s)]; n > 0 {
			states = append(states, fmt.Sprintf("%d %s", n, s))
		}
	}
	line("skills", "%s", cmp.Or(strings.Join(states, ", "), "none"))
	name := "off"
	for _, o := range groupSkills(x.Off) {
		line(name, "%s: %s", plain.Line(o.Name), plain.Line(o.Why))
		name = ""
	}
	for i, u := range x.Unused {
		line([]string{"no effect", ""}[min(i, 1)], "%s", plain.Line(p.Short(u.Path)))
		for _, text := range u.Lines() {
			line("", "  %s", plain.Line(text))
		}
	}
}

// writeProblems writes what is wrong, which comes first.
func (x *Checkup) writeProblems(line func(name, format string, args ...any), p *engine.Project) {
	name := "problems"
	of := map[knack.Code]int{}
	for _, q := range x.Problems {
		if q.Severity == knack.Info && slices.Contains([]knack.Code{knack.CodeFeatureOff, knack.CodeDuplicateFile,
			knack.CodeNameCollision}, q.Code) || // the lines about skills say so
			(q.Code == knack.CodeSettingIgnored || q.Code == knack.CodeAddressIgnored) && q.Path == "" && len(x.Unused) > 0 {
			continue // the line above lists them
		}
		if of[q.Code]++; of[q.Code] > shownProblems {
			continue
		}
		line(name, "%s: %s", q.Severity, p.ShortProblem(q))
		if q.Hint != "" {
			line("", "hint: %s", plain.Line(q.Hint))
		}
		name = ""
	}
	for _, code := range slices.Sorted(maps.Keys(of)) {
		if n := of[code] - shownProblems; n > 0 {
			line("", "and %d more %s: knack doctor --json", n, code)
		}
	}
	if name != "" && x.ModelWhy == "" && !x.keyRefused {
		line(name, "none")
	}
}

const (
	shownProblems = 8 // of one kind
	examples      = 3 // skills that are off for one reason
)

// groupSkills replaces the skills that are off for the same reason by one item.
func groupSkills(off []offItem) (grouped []offItem) {
	names := map[string][]string{} // by reason
	off = slices.Clone(off)
	for i, o := range off {
		if strings.Contains(o.Why, "KNACK_FEATURES=") { // each has a feature of its own
			o.Why = "off until you switch their features on; knack skill why NAME says how"
			off[i] = o
		}
		if name, ok := strings.CutPrefix(o.Name, "skill "); ok {
			names[o.Why] = append(names[o.Why], name)
		}
	}
	for _, o := range off {
		if !strings.HasPrefix(o.Name, "skill ") {
			grouped = append(grouped, o)
			continue
		}
		all := names[o.Why]
		delete(names, o.Why)
		switch n := len(all) - examples; {
		case len(all) == 1:
			grouped = append(grouped, o)
		case n <= 0 && len(all) > 0:
			grouped = append(grouped, offItem{"skills " + strings.Join(all, ", "), o.Why})
		case n > 0:
			text := fmt.Sprintf("skills %s and %d more", strings.Join(all[:examples], ", "), n)
			grouped = append(grouped, offItem{text, o.Why})
		}
	}
	return grouped
}

// CacheLines describes what commands store in the caches of language tools.
func CacheLines(r sandbox.CacheReport) (lines []string) {
	if len(r.Layered) > 0 {
		lines = append(lines, "read, and written only to a layer of this project: "+strings.Join(r.Layered, " "))
	}
	if len(r.Own) > 0 {
		lines = append(lines, fmt.Sprintf("not used, this project has its own (%s): %s", r.Problem, strings.Join(r.Own, " ")))
	}
	if r.Project != "" {
		const mb = 1 << 20
		lines = append(lines, fmt.Sprintf("This project stored %d of %d MB, %s together %d MB. Each is removed "+
			"after 30 unused days. Directory: %s", r.Bytes/mb, r.Limit/mb, plain.Count(r.Projects, "project"),
			r.AllBytes/mb, r.Project))
	}
	return lines
}
