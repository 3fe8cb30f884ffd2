// Package needs is the part that says what a skill needs and this machine does not have: programs, Python modules, npm
// packages, other skills, a platform. It is read from metadata.knack.needs of the skill, and from what the skill has
// without it: what it requires of other agents, compatibility, commands in its text, scripts, package.json. Nothing is
// installed, and nothing of a skill runs.
package needs

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
)

// A Kind says what a Need is of.
type Kind string

const (
	Program  Kind = "program"
	Python   Kind = "python" // a module or a package of pip
	NPM      Kind = "npm"
	Skill    Kind = "skill"
	Platform Kind = "platform"
	Server   Kind = "server" // an MCP server; it is shown, and not looked for
	Host     Kind = "host"   // the same
)

// A Need is something that a skill needs.
type Need struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name"`
	Min  string `json:"min,omitempty"`  // the least version, such as 3.11; "": any
	From string `json:"from,omitempty"` // the file that shows it; "": metadata.knack.needs
}

// String returns the need as people read it.
func (n Need) String() string {
	text := n.Name
	if n.Min != "" {
		text += " ≥ " + n.Min
	}
	switch n.Kind {
	case Python:
		return text + " (Python)"
	case NPM:
		return text + " (npm)"
	case Skill:
		return "the skill " + text
	case Platform:
		return "the platform " + text
	case Server:
		return "the MCP server " + text
	case Host:
		return "the host " + text
	}
	return text
}

// maxNeeds is how many needs of one skill are looked at.
const maxNeeds = 100

// Of returns what a skill needs, the declared needs first. Problems of its metadata.knack.needs are the error; what can
// be read is returned nevertheless.
func Of(ctx context.Context, k *knack.Skill) (all []Need, err error) {
	all, err = declared(k)
	for _, n := range read(ctx, k) {
		if !slices.ContainsFunc(all, func(x Need) bool { return x.Kind == n.Kind && x.Name == n.Name }) {
			all = append(all, n)
		}
	}
	return all[:min(len(all), maxNeeds)], err
}

// check says what is wrong with metadata.knack.needs of a skill.
func check(k *knack.Skill) error {
	_, err := declared(k)
	return err
}

// declared reads metadata.knack.needs: a list of programs, or an object with a list for each kind.
func declared(k *knack.Skill) (all []Need, err error) {
	value := k.Own("needs")
	if value == nil {
		return nil, nil
	}
	var programs []string
	var kinds struct {
		Programs  []string `json:"programs"`
		Python    []string `json:"python"`
		NPM       []string `json:"npm"`
		Skills    []string `json:"skills"`
		Servers   []string `json:"servers"`
		Platforms []string `json:"platforms"`
		Hosts     []string `json:"hosts"`
	}
	if json.Unmarshal(value, &programs) == nil {
		kinds.Programs = programs
	} else {
		d := json.NewDecoder(strings.NewReader(string(value)))
		d.DisallowUnknownFields()
		if err := d.Decode(&kinds); err != nil {
			return nil, fmt.Errorf("it must be a list of programs, or lists of programs, python, npm, skills, "+
				"servers, platforms and hosts: %w", err)
		}
	}
	pattern := requirement()
	add := func(kind Kind, names []string) {
		for _, text := range names {
			m := pattern.FindStringSubmatch(text)
			if m == nil {
				err = cmp.Or(err, fmt.Errorf("%q is not a name, or NAME>=VERSION", text))
				continue
			}
			all = append(all, Need{Kind: kind, Name: m[1], Min: m[2]})
		}
	}
	add(Program, kinds.Programs)
	add(Python, kinds.Python)
	add(NPM, kinds.NPM)
	add(Skill, kinds.Skills)
	add(Server, kinds.Servers)
	add(Platform, kinds.Platforms)
	add(Host, kinds.Hosts)
	if len(all) > maxNeeds {
		err = cmp.Or(err, fmt.Errorf("only the first %d are looked at", maxNeeds))
	}
	return all, err
}

// requirement matches a name, which a minimum version may follow. Names become part of commands that the user is shown,
// so they contain no character that has a meaning for a shell.
func requirement() *regexp.Regexp {
	return regexp.MustCompile(`^(@?[A-Za-z0-9_][A-Za-z0-9_.+/:-]{0,99})(?:\[[a-z0-9,_-]+\])? *(?:>= *([0-9][0-9.]{0,20}))?$`)
}

// Missing returns those needs that are not met on this machine. has tells whether there is a skill with a name.
func Missing(ctx context.Context, k *knack.Skill, all []Need, has func(name string) bool) (missing []Need) {
	var modules []Need
	var platforms []string
	for _, n := range all {
		switch n.Kind {
		case Program:
			if !found(ctx, n) {
				missing = append(missing, n)
			}
		case Python:
			modules = append(modules, n)
		case NPM:
			if !hasPackage(k.Dir, n) {
				missing = append(missing, n)
			}
		case Skill:
			if has != nil && !has(n.Name) {
				missing = append(missing, n)
			}
		case Platform:
			platforms = append(platforms, n.Name)
		}
	}
	missing = append(missing, absent(ctx, modules)...)
	if len(platforms) > 0 && !slices.Contains(platforms, runtime.GOOS) {
		missing = append(missing, Need{Kind: Platform, Name: strings.Join(platforms, " or ")})
	}
	return missing
}

// Line says in one line what a skill needs that is not here, and how to get it; "": nothing is missing.
func Line(name string, missing []Need) string {
	if len(missing) == 0 {
		return ""
	}
	var names []string
	for _, n := range missing {
		names = append(names, n.String())
	}
	verb := "is"
	if len(names) > 1 {
		verb = "are"
	}
	if more := len(names) - 8; more > 0 {
		names = append(names[:8], fmt.Sprintf("%d more", more))
	}
	line := fmt.Sprintf("%s needs %s, which %s not here", name, strings.Join(names, ", "), verb)
	if how := Commands(missing); len(how) > 0 {
		line += ": " + strings.Join(how, "; ")
	}
	return line
}
