package engine

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/engine/project/instructions"
	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm/models"
)

// Foreign holds what the settings files of other programs, such as Claude Code and Pi, say about models: which to use,
// their names, keys and addresses. Settings with an equal in Knack are merged by package config instead. Addresses and
// proxies have no effect until the user has agreed to them.
type Foreign struct {
	project *Project
	models  []config.ForeignModel // that may be used, if Knack's own settings name none
	model   string                // the one of these that is used; "": none
	unused  []UnusedSettings
	files   func() []UnusedSettings // of which nothing is read
	values  map[string]string       // for models, by variable
	routes  []Route                 // not answered yet
	tiers   map[string]string       // the provider anthropic's fast, default and strong
	shared  map[string]string       // for commands: those that sandbox.env names
	helper  string                  // prints the key of Anthropic; "": none
	hooks   []string                // for the user's hooks and status line, as NAME=value
}

// A Route is a variable in another program's settings that decides where requests, with the conversation, are sent.
type Route struct {
	Name, Value string // untrusted text
	Path        string // of the file
	Unusable    bool   // it has no equal here, so nothing can be agreed to
}

// String describes the route without a password that its address may contain.
func (r Route) String() string {
	value := r.Value
	if u, err := url.Parse(value); err == nil && u.User != nil {
		value = u.Redacted()
	}
	return plain.Line(r.Name + "=" + value)
}

func (r Route) key() string {
	sum := sha256.Sum256([]byte(r.Path + "\x00" + r.Name + "\x00" + r.Value))
	return hex.EncodeToString(sum[:])
}

// UnusedSettings are the keys of a settings file of another program that have no effect here.
type UnusedSettings struct {
	Path string   `json:"path"`
	Keys []string `json:"keys"`
	// Advice says what to do about a key; one that is not in it has the advice of [config.Advice].
	Advice map[string]string `json:"advice,omitempty"`
}

// Lines describes the keys for people, one line for all about which nothing can be done.
func (u UnusedSettings) Lines() (lines []string) {
	var rest []string
	for _, key := range u.Keys {
		if key == "extensions" {
			home := os.DirFS(u.Path) // a directory for the files of Pi; of a settings file it has none
			for _, name := range plugin.Extensions(home, key) {
				lines = append(lines, plugin.Extension(home, name))
			}
		}
		if advice := cmp.Or(u.Advice[key], config.Advice(filepath.ToSlash(u.Path), key)); advice != "" {
			lines = append(lines, key+": "+advice)
		} else {
			rest = append(rest, key)
		}
	}
	if len(rest) > 0 {
		lines = append(lines, "not a thing here: "+strings.Join(rest, ", "))
	}
	return lines
}

// proxies are the variables that name a proxy for requests to models.
var proxies = []string{"HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy"}

// tierVariables are Claude Code's variables for what the aliases mean.
var tierVariables = map[string]string{"ANTHROPIC_SMALL_FAST_MODEL": "fast", "ANTHROPIC_DEFAULT_HAIKU_MODEL": "fast",
	"ANTHROPIC_DEFAULT_SONNET_MODEL": "default", "ANTHROPIC_DEFAULT_OPUS_MODEL": "strong"}

// read determines which of other programs' settings have an effect.
func (f *Foreign) read() {
	p := f.project
	f.files = sync.OnceValue(func() []UnusedSettings {
		all := unreadFiles(p.texts, p.options.Env)
		if p.texts.Home != "" && len(p.Where("memory.claude")) == 0 { // the user has not said whether they are read
			all = append(all, unreadNotes(p.options.Env, p.root)...)
		}
		return all
	})
	given := p.config.Foreign
	for _, u := range given.Unused {
		keys := slices.Clone(u.Keys)
		if filepath.Dir(u.Path) == given.PiHome {
			keys = notImported(keys, given.PiHome, p.options.Env)
		}
		if len(keys) > 0 {
			f.unused = append(f.unused, UnusedSettings{Path: u.Path, Keys: keys})
		}
	}
	if given.PiHome != "" {
		for _, u := range []struct {
			key   string
			paths []string
		}{{"skills", given.Skills}, {"prompts", given.Prompts}} {
			if len(outside(p.root, u.paths)) < len(u.paths) { // one is in the project
				f.unused = addUnused(f.unused, filepath.Join(given.PiHome, "settings.json"), u.key)
			}
		}
	}
	f.models = given.Models
	defer f.readEnvironment()
	env := slices.Clone(given.Env)
	var others []otherAddress
	if p.hasLayer("user") && !p.options.NoSettings {
		others = addresses(p.options.Env, p.home)
	}
	f.helper = given.KeyHelper
	if len(env)+len(others) == 0 {
		return
	}
	tables, _, _ := modelSettings(p.config) // an error is reported when the project is opened
	all := models.Known(tables...).Providers
	for _, a := range others {
		v := a.variable(all)
		if v.Name != "" && !slices.ContainsFunc(env, func(x config.ForeignVariable) bool { return x.Name == v.Name }) {
			env = append(env, v)
		}
	}
	answers := readRoutes(p.options.Env)
	f.values, f.tiers, f.shared = map[string]string{}, map[string]string{}, map[string]string{}
	refused := map[string]bool{} // bases that do not count (yet)
	var keys []config.ForeignVariable
	for _, v := range env {
		base := slices.ContainsFunc(all, func(x models.Provider) bool { return x.BaseEnv == v.Name })
		used := true
		switch {
		case v.Value == "":
		case base || slices.Contains(proxies, v.Name):
			r := Route{Name: v.Name, Value: v.Value, Path: v.Path}
			yes, answered := answers[r.key()]
			switch {
			case p.options.Env.Get(v.Name) == v.Value: // nothing is decided here
			case p.options.Env.Get(v.Name) != "":
				refused[v.Name] = true
			case answered && !yes:
				used, refused[v.Name] = false, true
			case yes:
				f.values[v.Name] = v.Value
			default:
				f.routes, refused[v.Name] = append(f.routes, r), true
			}
		case p.own.modelKeys()[v.Name], v.Name == customHeaders:
			keys = append(keys, v)
		case v.Name == "ANTHROPIC_MODEL":
			f.models = append([]config.ForeignModel{{Name: v.Value, Position: v.Position}}, f.models...)
		case slices.Contains(cloudVariables, v.Name), v.Name == "NODE_EXTRA_CA_CERTS", v.Name == "SSL_CERT_FILE":
			f.values[v.Name] = v.Value
		case tierVariables[v.Name] != "":
			f.tiers[tierVariables[v.Name]] = v.Value
		default:
			used = false
			if slices.Contains(otherPlaces, v.Name) && switchedOn(v.Value) {
				f.routes = append(f.routes, Route{v.Name, v.Value, v.Path, true})
			}
		}
		if slices.Contains(p.config.Settings.Sandbox.Env, v.Name) && p.config.Settings.Env[v.Name] == "" &&
			!p.own.modelKeys()[v.Name] {
			f.shared[v.Name], used = v.Value, true
		}
		if !refused[v.Name] && p.config.Settings.Env[v.Name] == "" {
			f.hooks = append(f.hooks, v.Name+"="+v.Value)
		}
		if !used && (refused[v.Name] || !p.own.any() || config.IsClaudes(v.Name)) {
			f.unused = addUnused(f.unused, v.Path, keyOf(v, given.PiHome))
		}
	}
	if refused["ANTHROPIC_BASE_URL"] {
		f.helper = ""
	}
	for _, v := range keys { // a key is for the address that stands beside it
		i := slices.IndexFunc(all, func(x models.Provider) bool {
			return x.TokenEnv == v.Name || slices.Contains(x.KeyEnv, v.Name) ||
				v.Name == customHeaders && x.Name == "anthropic"
		})
		switch {
		case all[i].BaseEnv == "" || !refused[all[i].BaseEnv]:
			f.values[v.Name] = v.Value
		case v.Name == customHeaders:
			f.unused = addUnused(f.unused, v.Path, keyOf(v, given.PiHome))
		}
	}
}

// keyOf returns the key of a settings file that a variable stands for. piHome is the directory of Pi's.
func keyOf(v config.ForeignVariable, piHome string) string {
	switch filepath.Base(v.Path) {
	case "config.toml":
		return "openai_base_url"
	case "opencode.json", "opencode.jsonc":
		return "provider"
	case "models.json":
		return "providers"
	}
	if filepath.Dir(v.Path) == piHome {
		return "httpProxy"
	}
	return "env." + v.Name
}

// addUnused adds a key of a file to those without effect.
func addUnused(all []UnusedSettings, path, key string) []UnusedSettings {
	for i := range all {
		if all[i].Path == path {
			all[i].Keys = append(all[i].Keys, key)
			return all
		}
	}
	return append(all, UnusedSettings{Path: path, Keys: []string{key}})
}

// notImported leaves out the key packages of Pi's settings if all of them are used here.
func notImported(keys []string, dir string, env Env) []string {
	i := slices.Index(keys, "packages")
	if i < 0 || env.DataDir() == "" {
		return keys
	}
	found, err := install.FindPi(dir)
	lock, bad := install.ReadLock(install.User(env.DataDir(), env.ConfigDir()).Lock)
	if err != nil || bad != nil {
		return keys
	}
	for id := range found {
		if lock.Plugins[id] == nil {
			return keys
		}
	}
	return slices.Delete(keys, i, i+1)
}

// Unused returns the settings of other programs that have no effect here, the files of those of which nothing is read,
// and the keys in these.
func (f *Foreign) Unused() []UnusedSettings {
	all := slices.Concat(f.unused, f.files())
	for _, u := range slices.Clone(all) {
		for _, name := range u.Keys {
			file := filepath.Join(u.Path, name)
			keys, ok := config.OtherKeys(file)
			if ok && len(keys) > 0 && !slices.ContainsFunc(f.unused, func(u UnusedSettings) bool { return u.Path == file }) {
				all = append(all, UnusedSettings{Path: file, Keys: keys})
			}
		}
	}
	return all
}

// unreadFiles names the files of which nothing is read, where a run searches.
func unreadFiles(o instructions.Options, env Env) []UnusedSettings {
	var dirs []string
	if o.Root != "" {
		dirs = layout.Dirs(o.Dir, o.Root)
	}
	return slices.Concat(otherFiles(o.Home, dirs), misnamed(dirs, func(folder string) string {
		switch {
		case o.Home == "":
			return ""
		case folder == ".claude":
			return env.ClaudeDir()
		case folder == ".pi":
			return env.PiDir()
		case folder == ".knack":
			return env.ConfigDir()
		}
		return ""
	}))
}

// unreadNotes names the notes of Claude Code about a project.
func unreadNotes(env Env, root string) []UnusedSettings {
	root, err := filepath.EvalSymlinks(root)
	dir := env.ClaudeNotes(root)
	const name = "MEMORY.md"
	if info, bad := os.Stat(filepath.Join(dir, name)); err != nil || dir == "" || bad != nil || info.Size() == 0 {
		return nil
	}
	return []UnusedSettings{{Path: dir, Keys: []string{name}, Advice: map[string]string{
		name: "/memory claude shows it and asks whether it is read; /memory claude off leaves this line out"}}}
}

// otherFiles names the files of other programs in a home and the directories of a project; "": not searched.
func otherFiles(home string, dirs []string) (all []UnusedSettings) {
	look := func(base, rel string, d config.OtherDir) {
		if base == "" || rel == "" {
			return
		}
		u := UnusedSettings{Path: filepath.Join(base, filepath.FromSlash(rel)), Advice: map[string]string{}}
		files := d.Files()
		add := func(name, advice string) { u.Keys, u.Advice[name] = append(u.Keys, name), advice }
		if rel == "." { // it may have any number of files
			for _, name := range files {
				at := filepath.Join(u.Path, name)
				right, _ := strings.CutPrefix(d.Advice(name), "rename it to ")
				if _, err := os.Lstat(at); err == nil && !sameFile(at, filepath.Join(u.Path, right)) {
					add(name, d.Advice(name)) // it is not read under another spelling
				}
			}
		} else {
			entries, _ := os.ReadDir(u.Path)
			for _, e := range entries {
				if slices.Contains(files, e.Name()) && !isEmpty(filepath.Join(u.Path, e.Name())) {
					add(e.Name(), d.Advice(e.Name()))
				} else if d.Program == "claude-files" {
					if advice := misspelt(u.Path, e.Name(), base == home); advice != "" {
						add(e.Name(), advice)
					}
				}
			}
		}
		i := slices.IndexFunc(all, func(o UnusedSettings) bool { return o.Path == u.Path })
		switch {
		case len(u.Keys) == 0:
		case i < 0:
			all = append(all, u)
		default:
			all[i].Keys = append(all[i].Keys, u.Keys...)
			maps.Copy(all[i].Advice, u.Advice)
		}
	}
	for _, d := range config.OtherDirs() {
		look(home, d.Home, d)
		for _, dir := range dirs {
			if dir != home {
				look(dir, d.Project, d)
			}
		}
	}
	return all
}

// Routes returns what would change where requests are sent, and was not answered yet.
func (f *Foreign) Routes() []Route { return slices.DeleteFunc(slices.Clone(f.routes), isUnusable) }

func isUnusable(r Route) bool { return r.Unusable }

// Answer records whether the Routes count from now on. It takes effect when the project is loaded again.
func (f *Foreign) Answer(yes bool) error {
	p := f.project
	file := p.options.Env.StateFile("routes.json")
	if file == "" {
		return ErrNoState("no answer was stored")
	}
	return atomicfile.Update(file, 0o600, func(old []byte) ([]byte, error) {
		answers := parseRoutes(old)
		for _, r := range f.Routes() {
			answers[r.key()] = yes
		}
		data, err := json.Marshal(answers)
		return append(data, '\n'), err
	})
}

// readRoutes reads the user's answers, by the key of the route. If they cannot be read, there are none.
func readRoutes(env Env) map[string]bool {
	file := env.StateFile("routes.json")
	if file == "" {
		return map[string]bool{}
	}
	data, _ := os.ReadFile(file)
	return parseRoutes(data)
}

func parseRoutes(data []byte) map[string]bool {
	answers := map[string]bool{}
	if json.Unmarshal(data, &answers) != nil || answers == nil {
		return map[string]bool{}
	}
	return answers
}

// weight orders keys without effect: first those that decide where requests go, then those about which the user can do
// something. path is the file of the key.
func weight(path, key string) int {
	low := strings.ToLower(key)
	if name, ok := strings.CutPrefix(key, "env."); key == "env" || ok && !config.IsClaudes(name) { // who knows what it is
		return 0
	}
	for _, word := range []string{"url", "proxy", "gateway", "helper", "socket", "token", "api_key", "apikey", "authrefresh",
		"use_", "endpoint", "_cert"} {
		if strings.Contains(low, word) {
			return 0
		}
	}
	if config.Advice(filepath.ToSlash(path), key) == "" {
		return 2
	}
	return 1
}

// Limits of a warning: how many keys of a file it names, and how many files.
const (
	maxUnused      = 6
	maxUnusedFiles = 4
)

// problems are the problems of other programs' settings: one line for all keys without effect.
func (f *Foreign) problems() (problems []knack.Problem) {
	for _, r := range f.Routes() {
		problems = append(problems, knack.Problem{Code: knack.CodeAddressIgnored, Severity: knack.Warn, Path: r.Path,
			Message: "env: " + r.String() + " has no effect until you say yes to it",
			Hint:    "start knack on a terminal, which asks once, or set the variable yourself"})
	}
	unused := slices.Concat(f.unused, f.files()) // without the keys in these: a start does not read them
	if len(unused) == 0 {
		return problems
	}
	var first, files []string // the first have something about addresses
	code := knack.CodeSettingIgnored
	for _, u := range unused {
		keys := slices.Clone(u.Keys)
		order.Stable(keys, func(a, b string) int { return cmp.Compare(weight(u.Path, a), weight(u.Path, b)) })
		line := plain.List(keys, maxUnused) + " of " + f.project.Short(u.Path)
		if weight(u.Path, keys[0]) == 0 {
			code, first = knack.CodeAddressIgnored, append(first, line)
		} else {
			files = append(files, line)
		}
	}
	files = append(first, files...)
	if more := len(files) - maxUnusedFiles; more > 0 {
		files = append(files[:maxUnusedFiles], "and "+plain.Count(more, "more file"))
	}
	return append(problems, knack.Problem{Code: code, Severity: knack.Warn,
		Message: "no effect here: " + strings.Join(files, "; "), Hint: "knack doctor"})
}

// choose uses the first model of other programs' settings that can be used, if Knack's own name none. One
// whose provider has no key is passed over.
func (f *Foreign) choose(m *Models) (problems []knack.Problem) {
	p := f.project
	set := &p.config.Settings.Models
	set.Fallback = slices.DeleteFunc(slices.Clone(set.Fallback), func(name string) bool {
		err := m.hasKey(name)
		if err != nil {
			problems = append(problems, knack.Problem{Code: knack.CodeModelUnknown, Severity: knack.Warn,
				Message: fmt.Sprintf("the model %q of models.fallback is passed over: %v", name, err)})
		}
		return err != nil
	})
	if p.config.Settings.Model != "" || p.options.Model != nil {
		return problems
	}
	for _, c := range f.models {
		err := m.hasKey(c.Name)
		if err == nil {
			p.config.Settings.Model, f.model = c.Name, c.Name
			return problems
		}
		problems = append(problems, knack.Problem{Code: knack.CodeModelUnknown, Severity: knack.Warn, Path: c.Path,
			Line: c.Line, Column: c.Column, Message: fmt.Sprintf("the model %q is passed over: %v", c.Name, err)})
	}
	return problems
}

// hasKey returns an error if a model is unknown, or its provider has no key and is not a server of the user's. It
// contacts nothing and starts no key helper.
func (m *Models) hasKey(name string) error {
	table, keys := models.Known(m.Tables...), OpenKeys(m.Env)
	current := table.Preferred(m.getenv, keys.Has)
	if current == "" {
		current = "anthropic"
	}
	p, model, err := table.Find(name, current)
	if err != nil {
		return err
	}
	e, _ := table.Endpoint(p, model, m.getenv)
	if key, _ := p.EnvKey(m.getenv); key != "" || p.KeyHelper != "" || p.Local || p.Configured || e.BaseURL != p.Base ||
		keys.Has(p.Name) {
		return nil
	}
	return errors.New("no key for " + p.Name)
}

// getenv looks up a variable for models: those of the process come before those of other programs' settings.
func (m *Models) getenv(name string) string {
	return cmp.Or(m.ownVariable(name), m.foreign[name])
}

// routed reports whether another program's settings decide where a provider's requests are sent.
func (m *Models) routed(p models.Provider) bool {
	return p.BaseEnv != "" && !p.Configured && m.foreign[p.BaseEnv] != "" && m.ownVariable(p.BaseEnv) == ""
}

// unanswered returns an error if another program's settings would send a provider's requests elsewhere, and nobody has
// said yes or no to it: past the gateway that they name, the requests would be seen by others.
func (m *Models) unanswered(p models.Provider, base string) error {
	for _, r := range m.pending {
		if !slices.Contains(proxies, r.Name) {
			if (r.Name == p.BaseEnv || r.Unusable && p.Name == "anthropic" && m.foreign[p.BaseEnv] == "") && !p.Configured &&
				m.ownVariable(p.BaseEnv) == "" {
				return r.unanswered()
			}
			continue
		}
		own := p.Proxy != "" || m.Proxy != "" || slices.ContainsFunc(proxies, func(name string) bool {
			return m.Env.Get(name) != ""
		})
		if !own && strings.HasPrefix(base, "https://") {
			return r.unanswered()
		}
	}
	return nil
}

// unanswered is the error for requests that the route would send elsewhere.
func (r Route) unanswered() error {
	if r.Unusable {
		return &Error{Err: fmt.Errorf("%s of %s says where requests go, and has no effect here", r, plain.Line(r.Path)),
			Hint: "export ANTHROPIC_BASE_URL=…, with the address to use, such as https://api.anthropic.com", Exit: ExitUsage}
	}
	return &Error{Err: fmt.Errorf("%s of %s says where requests go, and has no effect until you say yes to it", r,
		plain.Line(r.Path)), Hint: "start knack on a terminal, which asks once\n" +
		"export " + r.String() + ", to use it without the question; or the vendor's address, to go past it",
		Exit: ExitUsage}
}

// proxy returns the proxy for requests to a provider at an address. One from another program's settings is not used for
// addresses without TLS, where it would read the key.
func (m *Models) proxy(p models.Provider, base string) string {
	switch {
	case p.Proxy != "":
		return p.Proxy
	case m.Proxy != "" || !strings.HasPrefix(base, "https://"):
		return m.Proxy
	}
	for _, name := range proxies {
		if m.Env.Get(name) != "" {
			return ""
		}
	}
	for _, name := range proxies {
		if v := m.foreign[name]; v != "" {
			return v
		}
	}
	return ""
}

// table returns a table with the models that Claude Code's variables name for the aliases, and its key helper, which
// comes after a key in the environment, as it does there, and after what Knack's own settings say of Anthropic.
func (f *Foreign) table(m *Models) []models.Table {
	own, _ := models.Known(m.Tables...).Provider("anthropic")
	helper := f.helper
	if key, _ := own.EnvKey(m.getenv); key != "" || own.KeyHelper != "" || own.Configured {
		helper = ""
	}
	m.helper = helper
	if len(f.tiers) == 0 && helper == "" {
		return nil
	}
	return []models.Table{{Providers: []models.Provider{{Name: "anthropic", Aliases: maps.Clone(f.tiers),
		KeyHelper: helper}}}}
}
