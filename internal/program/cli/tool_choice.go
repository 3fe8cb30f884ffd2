package cli

import (
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/engine/part/own"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
	"github.com/knack-agent/knack/sources"
)

// ownTools returns the tools of the user and of the project in which the program was started, approved or not: whether
// they can be used is said later. They must not be called.
func ownTools() (set tool.Set) {
	dir, err := os.Getwd()
	if err != nil {
		return nil
	}
	found, _ := own.Find(engine.Brought{Dirs: layout.Dirs(dir, sources.Root(dir)), User: engine.Env(nil).ConfigDir(),
		Check: func(string, []byte) error { return nil }})
	for _, p := range found {
		set = append(set, tool.Tool{Name: p.Name})
	}
	return set
}

// checkTools rejects a value of --tools with a name that no tool has. What comes later is not known yet: the tools of
// servers; those of other agents are left to a warning.
func checkTools(spec string) error {
	if spec == "" {
		return nil // most starts: making the tools takes time
	}
	known, withOwn := part.KnownTools(), false
	between := func(r rune) bool { return r == ',' || unicode.IsSpace(r) }
	for _, term := range strings.FieldsFunc(coding.Choice(spec, ""), between) {
		name := strings.TrimLeft(term, "+-")
		if name == "" || permission.IsOtherAgentsTool(name) {
			continue
		}
		_, problems := tool.Select(known, "", name)
		if len(problems) > 0 && !withOwn {
			known, withOwn = append(slices.Clone(known), ownTools()...), true
			_, problems = tool.Select(known, "", name)
		}
		if len(problems) > 0 {
			return engine.Usagef(problems[0].Hint, "--%s", problems[0].Message)
		}
	}
	return nil
}
