package install

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/internal/leaf/fastjson"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// Found is a plugin that another program has installed.
type Found struct {
	Dir  string         // absolute
	From *plugin.Source // of its marketplace; nil: not known, or a directory
	// Of a package of Pi: what the user's settings take of it, nil for everything, and the source that adds it here if
	// Dir is "", because Pi does not have it where it keeps packages.
	Entry json.RawMessage
	Add   string
}

// FindClaude returns the plugins that Claude Code has installed, by NAME@MARKETPLACE. dir is its directory, ~/.claude.
func FindClaude(dir string) (map[string]Found, error) {
	var list struct {
		Plugins map[string]json.RawMessage `json:"plugins"`
	}
	file := filepath.Join(dir, "plugins", "installed_plugins.json")
	data, err := regular.Read(file, 8<<20)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = fastjson.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var markets map[string]struct {
		Source json.RawMessage `json:"source"`
	}
	if data, err := regular.Read(filepath.Join(dir, "plugins", "known_marketplaces.json"), 8<<20); err == nil {
		json.Unmarshal(data, &markets) // otherwise their sources are not known
	}
	type place struct {
		Scope string `json:"scope"`
		Path  string `json:"installPath"`
	}
	all := map[string]Found{}
	for id, raw := range list.Plugins {
		var places []place
		if raw = bytes.TrimSpace(raw); bytes.HasPrefix(raw, []byte("{")) { // version 1 has one
			raw = append(append([]byte("["), raw...), ']')
		}
		_, market, ok := Split(id)
		if !ok || json.Unmarshal(raw, &places) != nil {
			continue
		}
		x := Found{}
		for _, p := range places { // that of the user, otherwise the first
			if filepath.IsAbs(p.Path) && (x.Dir == "" || p.Scope == "user") {
				x.Dir = filepath.Clean(p.Path)
			}
		}
		if x.Dir == "" {
			continue
		}
		if src, err := plugin.ParseSource(markets[market].Source); err == nil && src.Kind != plugin.Path {
			x.From = &src
		}
		all[id] = x
	}
	return all, nil
}

// StageInPlace describes a tree that another program installed and that is used where it is. Nothing is copied or
// changed.
func (s *Store) StageInPlace(ctx context.Context, f Found, name string, keys []Signer) (_ *Staged, err error) {
	st, err := s.newStaged()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			st.Close()
		}
	}()
	st.Dir = f.Dir
	files, err := Hash(f.Dir)
	if err != nil {
		return nil, err
	}
	st.Item = Item{Source: plugin.Source{Kind: plugin.Path, Path: f.Dir}, Place: f.Dir, From: f.From,
		Entry: f.Entry, Tree: files.Tree(),
		Files: files, Time: now(), By: who()}
	root, err := regular.Root(f.Dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	r := st.NewReader(root, f.Dir)
	st.Plugin = plugin.Read(r, plugin.Options{Name: name, Entry: f.Entry})
	if d := r.Drift(); !d.IsZero() {
		return nil, fmt.Errorf("it changes while it is read (%s)", d)
	}
	st.keys = keys
	st.Item.Version = st.Plugin.Version
	return st, s.verifyPack(ctx, st, Given{Keys: keys})
}

// now is the time for locks.
func now() time.Time { return time.Now().UTC().Truncate(time.Second) }
