package control

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/engine/transcript/claude"
	"github.com/knack-agent/knack/run/session"
)

// A MirrorMessage contains new entries of the session, in Claude Code's format, for a host that stores the transcript
// (sessionStore). Knack itself writes no such file.
type MirrorMessage struct {
	Type    messageType       `json:"type"`     // transcript_mirror
	Path    string            `json:"filePath"` // where Claude Code would write them
	Entries []json.RawMessage `json:"entries"`
}

// A mirror writes MirrorMessages.
type mirror struct {
	config  string // the directory of Claude Code's files
	parent  string // UUID of the host's last line; "": that of the session's last entry
	writers map[string]*claude.Writer
}

// MirrorAfter says that the session was imported from the host's transcript, which ends with the line that has a UUID.
func (o *Messages) MirrorAfter(uuid string) { o.mirror.parent = uuid }

// SetMirror makes the output mirror what is recorded. config is the directory of Claude Code's files, to which the
// paths in the messages belong.
func (o *Messages) SetMirror(config string) {
	o.mirror = &mirror{config, "", map[string]*claude.Writer{}}
}

// mirrored writes the lines for an entry of the session, or of a sub-agent's log.
func (o *Messages) mirrored(e engine.Event) {
	id, log, agent := o.sessionID(), o.sessionID(), ""
	if e.Agent != nil {
		log, agent = e.Agent.Log, e.Agent.Log
	}
	w := o.mirror.writers[log]
	if w == nil {
		p := o.session.Engine().Project()
		w = &claude.Writer{Session: id, Dir: p.Dir(), Version: p.Version(), Agent: agent, Tools: part.KnownTools(),
			UUID: func(e *session.Entry, part int) string {
				id := o.headOf(log, e.ID).UUID
				switch {
				case part > 0:
					return uuidOf(fmt.Sprintf("%s:part%d", id, part))
				case e.User != nil:
					return cmp.Or(e.User.MessageID, id)
				}
				return id
			}}
		if agent == "" {
			w.Parent = cmp.Or(o.mirror.parent, o.lastMirrored(w, e.Entry.ID))
		}
		o.mirror.writers[log] = w
	}
	lines, err := w.Lines(e.Entry)
	if err != nil || lines == nil {
		return // an entry that cannot be encoded is no message either
	}
	path := claude.File(o.mirror.config, w.Dir, id)
	if agent != "" {
		path = filepath.Join(strings.TrimSuffix(path, ".jsonl"), "subagents", "agent-"+agent+".jsonl")
	}
	o.out.write(MirrorMessage{typeMirror, path, lines})
}

// lastMirrored returns the UUID of the last line for the entries before one, which an earlier program has mirrored.
func (o *Messages) lastMirrored(w *claude.Writer, before int) string {
	for e := range o.session.Log().Backward() {
		if e.ID >= before {
			continue
		}
		past := *w
		if lines, err := past.Lines(&e); err == nil && lines != nil {
			return past.Parent
		}
	}
	return ""
}
