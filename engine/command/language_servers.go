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

// A languageServer is one that settings or a plugin define.
type languageServer struct {
	Name       string   `json:"name"`
	From       string   `json:"from"`
	Extensions []string `json:"extensions"`
	Missing    string   `json:"missing,omitempty"` // why it cannot start; "": its program was found
}

func languageServers(p *engine.Project) (all []languageServer) {
	found, _ := diagnose.Defined(p)
	for _, s := range found {
		all = append(all, languageServer{s.Name, s.From, slices.Sorted(maps.Keys(s.Languages)), s.Missing})
	}
	return all
}

// String is the line of /doctor.
func (s languageServer) String() string {
	return plain.Line(s.Name + " for " + strings.Join(s.Extensions, " ") + " (" + s.From + "): " +
		cmp.Or(s.Missing, "found"))
}
