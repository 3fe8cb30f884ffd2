package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/similar"
	"github.com/knack-agent/knack/run/mcp"
)

// A Kit is a named set of skills and servers, with rules and a model: with it, a model sees these and no others. It is
// a file kits/NAME.json of the user's configuration, of the project's .knack after trust, or of a plugin. It grants
// nothing.
type Kit struct {
	Name        string `json:"name"`
	Path        string `json:"path"`
	From        string `json:"from"` // user, project, or "plugin NAME"
	Description string `json:"description,omitempty"`
	// Skills are names of skills, see knack.View.Only; nil: all.
	Skills  []string `json:"skills"`
	Servers []string `json:"servers"` // names of MCP servers; nil: all
	Model   string   `json:"model,omitempty"`
	Effort  string   `json:"effort,omitempty"`
	Rules   struct {
		Ask  []string `json:"ask,omitempty"`
		Deny []string `json:"deny,omitempty"`
	} `json:"rules"`

	ask, deny []permission.Rule
}

const maxKit = 256 << 10 // bytes of a file

// kitsDir is the directory of kits.
const kitsDir = "kits"

// Kits returns the kits that the user, the project and its plugins bring; of several with the same name the first
// counts. The problems are about those that cannot be used.
func Kits(b Brought) (all []Kit, problems []knack.Problem) {
	broken := map[string]bool{} // a restriction that cannot be read is not replaced by another one of its name
	add := func(dir, from string, check func(string, []byte) error) {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			problems = append(problems, knack.Problem{Code: knack.CodeUnreadable, Severity: knack.Warn, Path: dir,
				Message: "its kits are not used: " + err.Error()})
		}
		for _, e := range entries {
			name, ok := strings.CutSuffix(e.Name(), ".json")
			if !ok || broken[name] || slices.ContainsFunc(all, func(k Kit) bool { return k.Name == name }) {
				continue
			}
			k, err := readKit(filepath.Join(dir, e.Name()), name, check)
			if err != nil {
				broken[name] = true
				problems = append(problems, kitProblem(filepath.Join(dir, e.Name()), err))
				continue
			}
			k.From = from
			all = append(all, k)
		}
	}
	if b.User != "" {
		add(filepath.Join(b.User, kitsDir), "user", nil)
	}
	for _, dir := range b.Dirs {
		for _, row := range layout.Rows(layout.Kit) {
			add(filepath.Join(dir, filepath.FromSlash(row.Path)), "project", b.Check)
		}
	}
	for _, p := range b.Plugins {
		add(filepath.Join(p.Dir, kitsDir), "plugin "+p.Name, p.Check)
	}
	return all, problems
}

// kitProblem says why a kit is not used. One that is not trusted keeps its code.
func kitProblem(path string, err error) knack.Problem {
	p := knack.Problem{Code: knack.CodeSettingIgnored, Severity: knack.Warn, Path: path,
		Message: "the kit is not used: " + err.Error()}
	var bad knack.Problem
	if errors.As(err, &bad) && bad.Path == path {
		p.Code, p.Hint = bad.Code, bad.Hint
		p.Message = "the kit is not used: " + strings.TrimPrefix(bad.Message, "left out: ")
	}
	return p
}

// readKit reads a file. check, if not nil, says whether its bytes are approved.
func readKit(path, name string, check func(string, []byte) error) (k Kit, err error) {
	if !regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`).MatchString(name) {
		return k, fmt.Errorf("%q is no name of a kit: use letters, digits, - _ and dots", name)
	}
	data, err := regular.Read(path, maxKit)
	if err == nil && check != nil {
		err = check(path, data)
	}
	if err != nil {
		return k, err
	}
	d := json.NewDecoder(strings.NewReader(string(data)))
	d.DisallowUnknownFields()
	var file struct {
		Schema      string   `json:"$schema"`
		Description string   `json:"description"`
		Skills      []string `json:"skills"`
		Servers     []string `json:"servers"`
		Model       string   `json:"model"`
		Effort      string   `json:"effort"`
		Rules       struct {
			Ask  []string `json:"ask"`
			Deny []string `json:"deny"`
		} `json:"rules"`
	}
	if err := d.Decode(&file); err != nil {
		return k, fmt.Errorf("%w (a kit has description, skills, servers, model, effort, and rules with ask and deny)", err)
	}
	if file.Effort != "" {
		text, err := json.Marshal(file.Effort)
		if err == nil {
			err = config.Check("effort", text)
		}
		if err != nil {
			return k, err
		}
	}
	k = Kit{Name: name, Path: path, Description: file.Description, Skills: file.Skills, Servers: file.Servers,
		Model: file.Model, Effort: file.Effort}
	k.Rules.Ask, k.Rules.Deny = file.Rules.Ask, file.Rules.Deny
	for _, x := range []struct {
		texts []string
		to    *[]permission.Rule
	}{{k.Rules.Ask, &k.ask}, {k.Rules.Deny, &k.deny}} {
		for _, text := range x.texts {
			r, err := permission.ParseRule(text, permission.Flag)
			if err == nil {
				err = r.Misspelt()
			}
			if err != nil {
				return k, err
			}
			*x.to = append(*x.to, r)
		}
	}
	return k, nil
}

// kitOf returns the kit of a name; nil for the name "".
func kitOf(b Brought, name string) (*Kit, error) {
	if name == "" {
		return nil, nil
	}
	all, problems := Kits(b)
	var names []string
	for i, k := range all {
		if k.Name == name {
			return &all[i], nil
		}
		names = append(names, k.Name)
	}
	for _, p := range problems { // a restriction that cannot be read
		if strings.TrimSuffix(filepath.Base(p.Path), ".json") == name {
			return nil, Usagef(cmp.Or(p.Hint, "knack help skills"), "--kit %s: %s: %s", name, p.Path, p.Message)
		}
	}
	hint := "knack help skills"
	if near := similar.Names(name, names); len(near) > 0 {
		hint = "--kit " + near[0]
	} else if names != nil {
		hint = "the kits are " + plain.List(names, 10)
	}
	return nil, Usagef(hint, "there is no kit %q", name)
}

// settings puts the model, the effort and the rules of a kit into the configuration. What flags say counts more.
func (k *Kit) settings(c *config.Config, flags map[string]any) {
	if k == nil {
		return
	}
	if flags["model"] == nil {
		c.Settings.Model = cmp.Or(k.Model, c.Settings.Model)
	}
	if flags["effort"] == nil {
		c.Settings.Effort = cmp.Or(k.Effort, c.Settings.Effort)
	}
	c.Rules.Ask = append(slices.Clip(c.Rules.Ask), k.ask...)
	c.Rules.Deny = append(slices.Clip(c.Rules.Deny), k.deny...)
}

// servers returns the servers that are in the kit.
func (k *Kit) servers(all []mcp.Server) []mcp.Server {
	if k == nil || k.Servers == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(s mcp.Server) bool { return !slices.Contains(k.Servers, s.Name) })
}

// view returns a view of the kit's skills. only are those that the session has besides; nil: all.
func (k *Kit) view(v knack.View, only []string) knack.View {
	v.Only = only
	switch {
	case k == nil || k.Skills == nil:
	case only == nil:
		v.Only = slices.Clone(k.Skills)
	default:
		v.Only = slices.DeleteFunc(slices.Clone(only), func(name string) bool { return !slices.Contains(k.Skills, name) })
	}
	return v
}

// missing names the skills and servers of a kit that do not exist. Skills of servers and plugins (SERVER:NAME) may come
// later, and are not looked for.
func (k *Kit) missing(cat *knack.Catalog, servers []mcp.Server) (problems []knack.Problem) {
	add := func(what, name string) {
		problems = append(problems, knack.Problem{Code: knack.CodeSettingIgnored, Severity: knack.Warn, Path: k.Path,
			Message: fmt.Sprintf("the kit %s names the %s %.100q, which does not exist", k.Name, what, name)})
	}
	for _, name := range k.Skills {
		if !strings.Contains(name, ":") && cat.Skill(name) == nil {
			add("skill", name)
		}
	}
	for _, name := range k.Servers {
		if !slices.ContainsFunc(servers, func(s mcp.Server) bool { return s.Name == name }) {
			add("server", name)
		}
	}
	return problems
}

// UseKit loads the directory of an engine again with a kit of this name; "": with none. The model and the effort that a
// session has chosen stay. On an error nothing changes.
func UseKit(ctx context.Context, e *Engine, name string) (Reloaded, error) {
	o := e.Project().options
	o.Kit = name
	return e.reload(ctx, o)
}
