package engine

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// SecretAccount is the name under which [Keys] have a value of a skill, or with skill "" of a plugin: for one source,
// with one content. Nothing in it is secret.
func SecretAccount(skill, source, hash, name string) string {
	return strings.Join([]string{skill, source, hash, name}, "\n")
}

// PluginSource is the source of a plugin, NAME@MARKETPLACE, in [SecretAccount].
func PluginSource(id string) string { return "plugin " + id }

// pluginValues are the values of the userConfig of a plugin: the user's, or else the default.
type pluginValues struct {
	plain   map[string]string // no secrets, by key
	named   map[string]string // what stands for each value in a server's definition, by key: of a secret, a variable
	secrets map[string]string // the values that are secrets, by variable
	missing []string          // keys of what is required and has no value
}

// readValues reads the values that the user gave to the plugin with the content that it has now. The error says what
// could not be read; the others are there.
func (x *usedPlugin) readValues(env Env) error {
	if len(x.UserConfig) == 0 {
		return nil
	}
	v := pluginValues{plain: map[string]string{}, named: map[string]string{}, secrets: map[string]string{}}
	given, err := x.given(env)
	for _, c := range x.UserConfig {
		value, bad := given(c.Variable())
		err = cmp.Or(err, bad)
		value = cmp.Or(value, c.Default)
		switch {
		case value == "" && c.Required:
			v.missing = append(v.missing, c.Key)
			continue
		case !c.Sensitive:
			v.plain[c.Key] = value
		case value != "":
			v.secrets[c.Variable()] = value
			value = "${" + c.Variable() + "}" // so that no list of servers shows it
		}
		v.named[c.Key] = value
	}
	x.values, x.Config = v, v.plain
	return err
}

// given returns what looks up the values that the user gave. The plugin's files are read only if there are any.
func (x *usedPlugin) given(env Env) (look func(name string) (string, error), err error) {
	look = func(string) (string, error) { return "", nil }
	keys, source := OpenSkillKeys(env), PluginSource(x.id)
	accounts, err := keys.Providers()
	if !slices.ContainsFunc(accounts, func(a string) bool { return strings.HasPrefix(a, "\n"+source+"\n") }) {
		return look, err
	}
	dir, err := filepath.EvalSymlinks(x.Dir)
	if err != nil {
		return look, err
	}
	files, err := install.Hash(dir)
	if err != nil {
		return look, err
	}
	hash := files.Sum()
	return func(name string) (string, error) { return keys.Get(SecretAccount("", source, hash, name)) }, nil
}

// filler returns what fills values of a plugin in: the variables of its files, and ${user_config.KEY}.
func (x *usedPlugin) filler(project string, values map[string]string) func(string) string {
	vars := maps.Clone(x.Vars(project))
	for key, value := range values {
		vars["user_config."+key] = value
	}
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		pairs = append(pairs, "${"+name+"}", vars[name])
	}
	pairs = append(pairs, "${/}", string(filepath.Separator))
	return strings.NewReplacer(pairs...).Replace
}

// lacks returns a problem if a definition of a plugin needs a value that the user has not given; nil: it does not.
func (x *usedPlugin) lacks(what, definition string) *knack.Problem {
	for _, key := range x.values.missing {
		if strings.Contains(definition, "${user_config."+key+"}") {
			return &knack.Problem{Code: knack.CodeSecret, Severity: knack.Warn, Path: x.Dir, Message: what +
				" is not used: the user has not given " + plain.Line(key) + ", which it needs",
				Hint: "knack skill secrets " + plain.Line(x.Name)}
		}
	}
	return nil
}
