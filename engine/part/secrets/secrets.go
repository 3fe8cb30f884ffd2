// Package secrets is the part that gives the commands of a skill its secrets: keys and passwords that it lists under
// metadata.knack.env, those that it requires of other agents, and the values of userConfig of its plugin.
//
// A value is asked for once and kept in the keyring, for one skill of one source with one content: after a change it is
// asked for again. It is never taken from the environment or from another skill. Only a command gets it whose only
// program is a file of the skill's folder, while the skill is in use; see [Runs]. What such a command prints is masked.
package secrets

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A Wanted is a value that the commands of a skill get.
type Wanted struct {
	Name        string   `json:"name"` // of the environment variable
	Description string   `json:"description,omitempty"`
	Required    bool     `json:"required"`
	Hosts       []string `json:"hosts,omitempty"` // the only ones that a command with the value reaches; nil: any
	Plain       bool     `json:"plain,omitempty"` // it is no secret: a plugin's value that is not sensitive
	Default     string   `json:"default,omitempty"`
	Foreign     bool     `json:"foreign,omitempty"` // required of another agent, which takes it from the environment
}

// maxWanted is how many values a skill may want.
const maxWanted = 20

const maxManifest = 1 << 20 // bytes of plugin.json

// Of returns the values that the commands of a skill get. What is wrong with metadata.knack.env is the error; the rest
// is returned nevertheless.
func Of(k *knack.Skill) (all []Wanted, err error) {
	if k.Dir == "" || k.Origin.Kind == knack.MCP {
		return nil, nil
	}
	all, err = declared(k.Own("env"))
	for _, r := range engine.RequiredOf(k) {
		for _, name := range r.Variables {
			w := Wanted{Name: name, Description: "metadata." + r.Name + ".requires", Foreign: true}
			if w.check() == nil && !slices.ContainsFunc(all, func(x Wanted) bool { return x.Name == w.Name }) {
				all = append(all, w)
			}
		}
	}
	if root := pluginRoot(k); root != "" {
		for _, w := range userConfig(root) {
			if !slices.ContainsFunc(all, func(x Wanted) bool { return x.Name == w.Name }) {
				all = append(all, w)
			}
		}
	}
	if len(all) > maxWanted {
		return all[:maxWanted], fmt.Errorf("there are more than %d", maxWanted)
	}
	return all, err
}

// declared reads metadata.knack.env.
func declared(value json.RawMessage) (all []Wanted, err error) {
	if value == nil {
		return nil, nil
	}
	var items []json.RawMessage
	if json.Unmarshal(value, &items) != nil {
		return nil, errors.New("it must be a list of objects with name, description, required and hosts")
	}
	for _, item := range items {
		var x struct {
			Name        string   `json:"name"`
			Description string   `json:"description"`
			Required    *bool    `json:"required"`
			Hosts       []string `json:"hosts"`
		}
		d := json.NewDecoder(strings.NewReader(string(item)))
		d.DisallowUnknownFields()
		bad := d.Decode(&x)
		w := Wanted{Name: x.Name, Description: x.Description, Required: x.Required == nil || *x.Required, Hosts: x.Hosts}
		if bad == nil {
			bad = w.check()
		}
		if bad == nil && slices.ContainsFunc(all, func(o Wanted) bool { return o.Name == w.Name }) {
			bad = fmt.Errorf("%s is there twice", w.Name)
		}
		if bad != nil {
			err = cmp.Or(err, bad)
			continue
		}
		all = append(all, w)
	}
	return all, err
}

// check returns an error for what no value can be given to.
func (w *Wanted) check() error {
	if err := checkName(w.Name); err != nil {
		return err
	}
	for _, h := range w.Hosts {
		// A name of this machine's network would make a question about it look like one about the skill's own service.
		if !regexp.MustCompile(`^(\*\.)?([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*(:[0-9]{1,5})?$`).MatchString(h) {
			return fmt.Errorf("%s: %q is not the name of a host, such as api.example.com or *.example.com", w.Name, h)
		}
	}
	return nil
}

// checkName returns an error for the name of a variable that changes how programs run, or that cannot be set.
func checkName(name string) error {
	if !regexp.MustCompile(`^[A-Z_][A-Z0-9_]{0,99}$`).MatchString(name) {
		return fmt.Errorf("%q is not the name of a variable in capitals, such as SERVICE_TOKEN", name)
	}
	for _, start := range []string{"KNACK_", "LD_", "DYLD_", "GIT_", "BASH_", "PYTHON", "NODE_", "RUBY", "PERL"} {
		if strings.HasPrefix(name, start) {
			return fmt.Errorf("%s: what begins with %s changes how programs run", name, start)
		}
	}
	switch name {
	case "PATH", "HOME", "ENV", "IFS", "SHELL", "USER", "PWD", "TMPDIR", "PS4", "PROMPT_COMMAND":
		return fmt.Errorf("%s changes how programs run", name)
	}
	return nil
}

// pluginRoot returns the directory of a skill's plugin; "": it is of none.
func pluginRoot(k *knack.Skill) string {
	if k.Origin.Kind != knack.Plugin {
		return ""
	}
	return k.Vars["CLAUDE_PLUGIN_ROOT"]
}

// folders returns the directories whose programs get the values of a skill.
func folders(k *knack.Skill) []string {
	if root := pluginRoot(k); root != "" {
		return []string{k.Dir, root}
	}
	return []string{k.Dir}
}

// userConfig returns the values that a plugin asks for in its manifest.
func userConfig(root string) (all []Wanted) {
	var manifest struct {
		UserConfig json.RawMessage `json:"userConfig"`
	}
	for _, file := range []string{".claude-plugin/plugin.json", "plugin.json"} {
		data, err := regular.Read(filepath.Join(root, filepath.FromSlash(file)), maxManifest)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || json.Unmarshal(data, &manifest) != nil {
			return nil
		}
		break
	}
	values, _ := plugin.ReadUserConfig(manifest.UserConfig) // the check of the plugin says what is wrong
	for _, c := range values {
		w := Wanted{Name: c.Variable(), Description: c.Description, Required: c.Required, Plain: !c.Sensitive,
			Default: c.Default}
		if checkName(w.Name) == nil {
			all = append(all, w)
		}
	}
	return all
}

// Line names values, and where commands with them reach, in a few words; "": there are none.
func Line(all []Wanted) string {
	var list []string
	for _, w := range all {
		text := w.Name
		if !w.Required {
			text += " (may be missing)"
		}
		if len(w.Hosts) > 0 {
			text += " (for " + strings.Join(w.Hosts, ", ") + ")"
		}
		list = append(list, text)
	}
	return plain.Line(plain.List(list, 10))
}

// A Binding is what a value is for: a skill of one source with one content.
type Binding struct {
	Skill  string `json:"skill"`
	Source string `json:"source"` // the folder, "plugin NAME@MARKETPLACE", or where a single skill was installed from
	Hash   string `json:"hash"`   // of all files of the folder, or of the plugin
}

// BindingOf reads the files of a skill.
func BindingOf(k *knack.Skill) (Binding, error) {
	b, _, err := bind(k)
	return b, err
}

// tree returns the real directory of a skill, or of its plugin, and the files in it.
func tree(k *knack.Skill) (dir string, files install.Files, err error) {
	if dir, err = filepath.EvalSymlinks(cmp.Or(pluginRoot(k), k.Dir)); err != nil {
		return "", nil, err
	}
	if files, err = install.Hash(dir); err != nil {
		return "", nil, fmt.Errorf("its files cannot be read whole: %w", err)
	}
	return dir, files, nil
}

// bind returns the Binding of a skill, and the files that it is about, with absolute paths.
func bind(k *knack.Skill) (b Binding, files install.Files, err error) {
	b = Binding{Skill: k.Name}
	dir, found, err := tree(k)
	if err != nil {
		return b, nil, err
	}
	b.Source = dir
	switch {
	case k.Origin.Kind != knack.Plugin:
	case k.Origin.Label == "": // a single skill
		b.Source = k.Origin.From
	default:
		b.Source = engine.PluginSource(cmp.Or(k.Origin.From, k.Origin.Label))
	}
	files = install.Files{}
	for name, hash := range found {
		files[filepath.Join(dir, filepath.FromSlash(name))] = hash
	}
	b.Hash = found.Sum()
	return b, files, nil
}
