package permission

import (
	"cmp"
	"encoding/json"
	"errors"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Limits restrict the runs that a command of a session starts (`knack -p …`): they allow no more than these rules and
// this mode, whatever flags and settings they have. The zero Limits allow what needs no rule, in the mode [Default].
type Limits struct {
	Mode    Mode     // runs have this one or a stricter one
	Sandbox string   // of the session; if it is not "off", runs cannot turn theirs off
	Rules   Rules    // of those that allow no others count; those that ask or deny count besides the run's own
	Policy  []string // restrictions of the session's host, as settings
}

// writtenLimits are Limits as JSON, with the texts of rules by origin.
type writtenLimits struct {
	Mode    Mode                `json:"mode,omitempty"`
	Sandbox string              `json:"sandbox,omitempty"`
	Allow   map[Origin][]string `json:"allow,omitempty"`
	Ask     map[Origin][]string `json:"ask,omitempty"`
	Deny    map[Origin][]string `json:"deny,omitempty"`
	Policy  []string            `json:"policy,omitempty"`
}

// String returns l as JSON, for [ParseLimits]. Rules keep their meaning only if [PathContext.Anywhere] has made them.
func (l Limits) String() string {
	texts := func(rules []Rule) map[Origin][]string {
		all := map[Origin][]string{}
		for _, r := range rules {
			all[r.Origin] = append(all[r.Origin], r.String())
		}
		return all
	}
	data, _ := json.Marshal(writtenLimits{l.Mode, l.Sandbox, texts(l.Rules.Allow), texts(l.Rules.Ask),
		texts(l.Rules.Deny), l.Policy}) // has only strings
	return string(data)
}

// ParseLimits reads what String has written.
func ParseLimits(text string) (Limits, error) {
	var w writtenLimits
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields() // of a later version: they may restrict
	if err := d.Decode(&w); err != nil {
		return Limits{}, err
	}
	mode, err := ParseMode(string(cmp.Or(w.Mode, Default)))
	l := Limits{Mode: mode, Sandbox: w.Sandbox, Policy: w.Policy}
	for _, list := range []struct {
		to    *[]Rule
		texts map[Origin][]string
	}{{&l.Rules.Allow, w.Allow}, {&l.Rules.Ask, w.Ask}, {&l.Rules.Deny, w.Deny}} {
		for origin, texts := range list.texts {
			for _, text := range texts {
				r, rerr := ParseRule(text, origin)
				*list.to, err = append(*list.to, r), errors.Join(err, rerr)
			}
		}
	}
	return l, err
}

// Stricter returns the mode that allows less; "" counts as the least strict.
func Stricter(a, b Mode) Mode {
	order := []Mode{"", Bypass, AcceptEdits, Default, DontAsk, Plan}
	if slices.Index(order, b) > slices.Index(order, a) {
		return b
	}
	return a
}

// Anywhere returns the rules with absolute paths, so that they mean the same in every directory. Set broad for deny and
// ask rules, whose relative patterns match at any depth.
func (p *PathContext) Anywhere(rules []Rule, broad bool) []Rule {
	var all []Rule
	if broad {
		rules = p.meant(rules)
	}
	for _, r := range rules {
		kind, _ := kindOf(r.Tool)
		if r.Any || kind != KindRead && kind != KindEdit {
			r.Base = ""
			all = append(all, r)
			continue
		}
		for _, pattern := range p.anchored(r, broad) {
			all = append(all, Rule{Tool: r.Tool, Pattern: pattern, Origin: r.Origin})
		}
	}
	return all
}

// anchored returns absolute patterns that mean what the pattern of a rule means in p.Dir.
func (p *PathContext) anchored(r Rule, broad bool) []string {
	base, rest := p.anchor(&r)
	switch {
	case base == "/" || base == "" && broad:
		return []string{r.Pattern}
	case base == "" && strings.Contains(rest, "/"):
		base = p.Dir
	case base == "":
		var all []string
		for _, root := range append([]string{p.Dir}, p.Roots...) {
			all = append(all, "/"+path.Join(Literal(root), "**", rest))
		}
		return all
	}
	dirs := []string{base}
	if broad && base == p.Dir {
		dirs = append(dirs, p.mainDirs()...)
	}
	for i, dir := range dirs {
		if dirs[i] = "/" + Literal(dir); rest != "**" { // the directory itself, too
			dirs[i] = "/" + path.Join(Literal(dir), rest)
		}
	}
	return dirs
}

// Literal returns the pattern that matches only a path.
func Literal(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(filepath.ToSlash(name))
}
