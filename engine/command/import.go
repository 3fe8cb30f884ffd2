package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/transcript"
	"github.com/knack-agent/knack/engine/transcript/claude"
	"github.com/knack-agent/knack/engine/transcript/pi"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// ReadTranscript reads a transcript of Claude Code, Pi or Knack. name is the file's, for messages. The tools are used
// only to convert names and inputs of calls; none of them runs.
func ReadTranscript(in io.Reader, name string, tools tool.Set) (*transcript.Transcript, error) {
	return transcript.Read(in, transcript.ReadOptions{
		Name: name, Agents: []transcript.Importer{claude.Agent, pi.Agent}, Tools: tools,
	})
}

// Import saves a transcript of Claude Code, Pi or Knack as a new session of a directory and returns its ID. See
// [ReadTranscript] for name and tools. The warnings are lines for a terminal.
func Import(store session.Store, dir string, in io.Reader, name string, tools tool.Set) (id string, warnings []string,
	err error) {
	t, err := ReadTranscript(in, name, tools)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", plain.Line(name), err)
	}
	for _, p := range t.Problems {
		warnings = append(warnings, plain.Line(p.String()))
	}
	if t.Dir != "" && filepath.Clean(t.Dir) != dir {
		warnings = append(warnings, fmt.Sprintf("%s: its paths are from %s, but the session belongs to this directory",
			plain.Line(name), plain.Line(t.Dir)))
	}
	if t.Log.Leaf() == 0 {
		return "", warnings, fmt.Errorf("%s: this transcript of %s is empty", plain.Line(name), t.Agent)
	}
	h := session.Header{Dir: dir, Imported: true, From: plain.Line(cmp.Or(t.ID, t.Agent))}
	if t.Agent != transcript.Knack {
		h.From = plain.Line(t.Agent + " " + t.ID)
	}
	to, err := store.Copy(h, t.Log.Walk())
	if err != nil {
		return "", warnings, fmt.Errorf("%s: %w", plain.Line(name), err)
	}
	return to.ID(), warnings, to.Close()
}

// importSession is /import: a file that the user names becomes a session, which is resumed.
func importSession(ctx context.Context, s *engine.Session, path string) (engine.Reply, error) {
	p := s.Engine().Project()
	if path = strings.TrimSpace(path); path == "" {
		return engine.Reply{Text: offerTranscripts(p.Env(), p.Dir())}, nil
	}
	f, err := openTyped(ctx, s.Engine(), typedPath(p, path))
	if err != nil {
		return engine.Reply{}, err
	}
	defer f.Close()
	id, warnings, err := Import(p.Env().Sessions(p.Dir()), p.Dir(), f, path, engine.KnownTools())
	if err != nil {
		return engine.Reply{}, err
	}
	reply, err := resume(ctx, s, id)
	reply.Text = strings.Join(append(warnings, reply.Text), "\n")
	return reply, err
}
