package command

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/diagnose"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// A languageServer is one that settings or a plugin define, or a formatter.
type languageServer struct {
	Name       string   `json:"name"`
	From       string   `json:"from"`
	Extensions []string `json:"extensions"`
	Missing    string   `json:"missing,omitempty"` // why it cannot start; "": its program was found
}

func languageServers(p *engine.Project) (all, formatters []languageServer, unused []string) {
	found, _ := diagnose.Defined(p)
	list := func(found []*diagnose.Server) (all []languageServer) {
		for _, s := range found {
			all = append(all, languageServer{s.Name, s.From, slices.Sorted(maps.Keys(s.Languages)), s.Missing})
		}
		return all
	}
	return list(found), list(diagnose.Formatters(p)), diagnose.Unused(found)
}

// writeLanguages writes the lines about language servers and formatters.
func (x *Checkup) writeLanguages(line func(name, format string, args ...any)) {
	name := "languages"
	for _, s := range x.LanguageServers {
		line(name, "%s", s)
		name = ""
	}
	for _, setting := range x.UnusedServers {
		line(name, "a language server is installed and not used; to use it, set %s", setting)
		name = ""
	}
	for i, f := range x.Formatters {
		line([]string{"formatters", ""}[min(i, 1)], "%s", f)
	}
}

// String is the line of /doctor.
func (s languageServer) String() string {
	return plain.Line(s.Name + " for " + strings.Join(s.Extensions, " ") + " (" + s.From + "): " +
		cmp.Or(s.Missing, "found"))
}
