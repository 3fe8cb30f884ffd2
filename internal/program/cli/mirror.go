package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/engine/transcript/claude"
	"github.com/knack-agent/knack/internal/leaf/outfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/program/control"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/sources"
)

// claudeDir returns the directory of Claude Code's files; "": there is no home.
func claudeDir() string {
	if dir := os.Getenv("CLAUDE_CONFIG_DIR"); dir != "" {
		return dir
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".claude")
}

// mirrored prepares a session whose transcript a host keeps: its ID is a UUID, as that host's programs expect, and one
// that only the host has is imported from where the SDK has put its transcript.
func (f *runFlags) mirrored(o *engine.SessionOptions) error {
	if f.noSession {
		return engine.Usagef("knack --session-mirror", "--session-mirror and --no-session cannot be used together")
	}
	if o.ID == "" && (o.Resume == "" && !o.Latest || o.Fork) {
		o.ID = session.NewUUID()
	}
	if o.Resume == "" {
		return nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	file, err := os.Open(claude.File(claudeDir(), realPath(dir), o.Resume))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is ours
	}
	if err != nil {
		return err
	}
	defer file.Close()
	last := lastUUID(file)
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	t, err := readTranscript(file, file.Name())
	if err != nil {
		return fmt.Errorf("the host's transcript: %w", err)
	}
	store, id := engine.Env(nil).Sessions(dir), o.Resume
	if own, err := store.Read(id); err == nil {
		if _, err := control.EntryOf(own, last); err == nil {
			return nil // it has all that the host has
		}
		id = session.NewUUID()
	}
	h := session.Header{ID: id, Dir: dir, From: plain.Line("Claude Code " + t.ID), Imported: true}
	to, err := store.Copy(h, t.Log.Walk())
	if err != nil {
		return err
	}
	o.Resume = id
	if f.imported != nil {
		f.imported(last)
	}
	return to.Close()
}

// lastUUID returns the UUID of the last message of a transcript; "": there is none.
func lastUUID(r io.Reader) (last string) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		var l struct {
			Type string `json:"type"`
			UUID string `json:"uuid"`
		}
		if json.Unmarshal(line, &l) == nil && l.UUID != "" && (l.Type == "user" || l.Type == "assistant") {
			last = l.UUID
		}
		if err != nil {
			return last
		}
	}
}

// exportClaude writes copies of sessions of this directory as transcripts of Claude Code below dir, each with a new ID.
// id is that of one session; "": all.
func exportClaude(c *cobra.Command, dir, id string) error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	ids := []string{id}
	if id == "" {
		ids = nil
		all, err := engine.Env(nil).Sessions(here).List()
		if err != nil {
			return err
		}
		for _, s := range all {
			ids = append(ids, s.ID)
		}
		if len(ids) == 0 {
			return &engine.Error{Err: errors.New("this directory has no sessions"), Hint: "knack session list"}
		}
	}
	asJSON := wantsJSON(c)
	made := []map[string]string{}
	for _, id := range ids {
		log, err := readSession(c, id)
		if err != nil {
			return err
		}
		path, err := writeClaude(dir, log)
		if err != nil {
			return fmt.Errorf("session %s: %w", log.ID(), err)
		}
		if path == "" {
			continue // nothing was said in it
		}
		if made = append(made, map[string]string{"session": log.ID(), "path": path, "format": "claude"}); !asJSON {
			fmt.Fprintln(c.OutOrStdout(), plain.Line(path))
		}
	}
	if asJSON {
		return writeJSON(c.OutOrStdout(), made)
	}
	return nil
}

// writeClaude writes the current branch of a session, and returns the path of the file; "": there is nothing to write.
// After an error there is no file.
func writeClaude(config string, log *session.Log) (path string, err error) {
	w := &claude.Writer{Session: session.NewUUID(), Dir: log.Header().Dir, Version: version(), Tools: part.KnownTools(),
		UUID: func(*session.Entry, int) string { return session.NewUUID() }}
	if log.Leaf() == 0 {
		return "", nil
	}
	path = claude.File(config, w.Dir, w.Session)
	base := sources.Root(".")
	if err := outfile.Mkdir(base, filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	file, err := outfile.Open(base, path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	defer func() {
		if err = errors.Join(err, file.Close()); err != nil {
			os.Remove(path)
			path = ""
		}
	}()
	put := func(line []byte) error {
		_, err := file.Write(append(line, '\n'))
		return err
	}
	for e := range log.Walk() {
		lines, err := w.Lines(&e)
		if err != nil {
			return path, err
		}
		for _, line := range lines {
			if err := put(line); err != nil {
				return path, err
			}
		}
	}
	if title := log.State().Title; title != "" {
		line, err := w.Title(title)
		if err != nil {
			return path, err
		}
		return path, put(line)
	}
	return path, nil
}
