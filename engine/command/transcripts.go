package command

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/transcript/claude"
	"github.com/knack-agent/knack/engine/transcript/pi"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/llm"
)

// maxTranscripts limits the transcripts that are offered, and maxBegin how much of one is read for its first message,
// in bytes.
const (
	maxTranscripts = 20
	maxBegin       = 256 << 10
)

// A Transcript is a file that another program has recorded in a directory.
type Transcript struct {
	Path    string    `json:"path"`
	Agent   string    `json:"agent"` // the program that wrote it
	Changed time.Time `json:"changed"`
	About   string    `json:"about,omitempty"` // its title, or the first message; escaped
}

// Transcripts returns what Claude Code and Pi have recorded in a directory, the last changed first, at most 20. It
// reads only the beginning of each; if that fails, About is empty.
func Transcripts(env engine.Env, dir string) []Transcript {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real // both programs name the folder by the real path
	}
	var all []Transcript
	for _, from := range []struct{ agent, folder string }{
		{claude.Agent.Name, claude.Folder(env.ClaudeDir(), dir)}, {pi.Agent.Name, pi.Folder(env.PiDir(), dir)},
	} {
		if !filepath.IsAbs(from.folder) {
			continue // there is no home
		}
		entries, _ := os.ReadDir(from.folder) // it is missing where the program was never used
		for _, e := range entries {
			info, err := e.Info()
			if err != nil || !info.Mode().IsRegular() || filepath.Ext(e.Name()) != ".jsonl" {
				continue
			}
			all = append(all, Transcript{Path: filepath.Join(from.folder, e.Name()), Agent: from.agent,
				Changed: info.ModTime()})
		}
	}
	order.Stable(all, func(a, b Transcript) int {
		return cmp.Or(b.Changed.Compare(a.Changed), cmp.Compare(a.Path, b.Path))
	})
	all = all[:min(len(all), maxTranscripts)]
	for i := range all {
		all[i].About = about(all[i].Path)
	}
	return all
}

// about returns the title or the first message of a transcript.
func about(path string) string {
	f, err := regular.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	t, err := ReadTranscript(io.LimitReader(f, maxBegin), path, nil)
	if err != nil {
		return ""
	}
	if title := t.Log.State().Title; title != "" {
		return plain.Line(title)
	}
	for _, e := range t.Log.Entries() {
		if e.User == nil {
			continue
		}
		if text := cmp.Or(e.User.Typed, llm.TextOf(e.User.Parts)); text != "" {
			return plain.Line(text)
		}
	}
	return ""
}

// offerTranscripts is the answer to /import without a file.
func offerTranscripts(env engine.Env, dir string) string {
	all := Transcripts(env, dir)
	if len(all) == 0 {
		return "/import FILE, such as " + filepath.Join("~", ".claude", "projects", "DIR", "SESSION.jsonl") +
			". Neither Claude Code nor Pi has recorded a session in this directory."
	}
	var b strings.Builder
	b.WriteString("Recorded in this directory by other programs:\n")
	for _, t := range all {
		fmt.Fprintf(&b, "\n%s, %s: %s\n  /import %s\n", t.Changed.Local().Format(time.DateTime), t.Agent,
			engine.Clip(t.About, 60), plain.Line(subpath.Short(t.Path, env.Home())))
	}
	return b.String()
}
