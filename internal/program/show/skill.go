package show

import (
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/session"
)

// Allowed lists in one line what a skill may do while it is in use, or returns "". Of the skill's own directory only
// the name is shown.
func Allowed(a *session.Activation) string {
	text := strings.Join(a.Granted(), ", ")
	if a.Dir != "" {
		short := "…/" + filepath.Base(a.Dir)
		inCommand := strings.ReplaceAll(a.Dir, " ", `\ `)
		text = strings.NewReplacer(inCommand, short, a.Dir, short).Replace(text)
	}
	return plain.Line(text)
}
