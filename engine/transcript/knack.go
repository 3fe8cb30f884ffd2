package transcript

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// isOurs reports whether a first line is the header of a Knack session.
func isOurs(line json.RawMessage) bool {
	var h struct {
		Knack int `json:"knack_session"`
	}
	return json.Unmarshal(line, &h) == nil && h.Knack != 0
}

// knack reads a Knack session, which another person may have written: it drops hooks, goals, the permission mode and
// the choice of a model, and ends an unfinished turn, which also ends the grants of its skills.
func (b *Builder) knack(all []Line) error {
	var h session.Header
	if err := json.Unmarshal(all[0].Data, &h); err != nil {
		return err
	}
	if h.Version > session.Version {
		return fmt.Errorf("written by a newer version (format %d)", h.Version)
	}
	b.ID, b.Dir = h.ID, h.Dir
	entries := map[int]session.Entry{}
	last := 0
	for _, r := range all[1:] {
		e, err := session.ParseEntry(r.Data)
		if err == nil && (e.ID <= last || e.Parent < 0 || e.Parent >= e.ID) {
			err = errors.New("its entry numbers are inconsistent")
		}
		if err == nil && !complete(e) {
			err = fmt.Errorf("an entry of the type %q has an unexpected form", e.Type)
		}
		if err != nil {
			b.Problem(r.N, err.Error())
			continue
		}
		if e.Activation != nil && e.Activation.Hooks != nil {
			e.Activation.Hooks, e.Activation.Dir = nil, ""
			b.Skip("hooks of a skill", 1)
		}
		if s := e.Setting; s != nil && s.Mode != "" {
			s.Mode = ""
			b.Skip("permission mode", 1)
		}
		if s := e.Setting; s != nil && s.Model != "" {
			s.Model = ""
			b.Skip("choice of a model", 1)
		}
		if !slices.Contains(importedTypes, e.Type) {
			b.Skip("entry of the type "+string(e.Type), 1)
			continue
		}
		if e.Compaction != nil {
			if b.compacted++; b.compacted > maxCompactions {
				b.Skip("compactions", 1)
				continue
			}
		}
		entries[e.ID] = e
		last = e.ID
	}
	var branch []session.Entry
	for id := last; id > 0; {
		e, ok := entries[id]
		if !ok { // it could not be read: continue with the previous one
			id--
			continue
		}
		branch = append(branch, e)
		id = e.Parent
	}
	slices.Reverse(branch)
	err := b.log.Graft(slices.Values(branch))
	if n := len(branch); err == nil && b.log.State().InTurn {
		_, err = b.log.Append(session.Entry{Time: branch[n-1].Time, Type: session.TypeTurnEnd,
			TurnEnd: &session.TurnEnd{Reason: session.EndInterrupted}})
	}
	return err
}

// importedTypes are the types of entries that may come from another person. A goal may be judged by a command, which
// nobody here has typed.
var importedTypes = []session.Type{session.TypeUser, session.TypeAnswer, session.TypeStarted, session.TypeResult,
	session.TypeDecision, session.TypeActivation, session.TypeNote, session.TypeTurnEnd, session.TypeRelease,
	session.TypeSetting, session.TypeListing, session.TypeCompaction, session.TypeAgent, session.TypeMove,
	session.TypeSeen, session.TypeRestore}

// complete reports whether an entry has exactly the field that its type names, and whether its
// content is allowed for the one who wrote it.
func complete(e session.Entry) bool {
	data, err := json.Marshal(e)
	var fields map[string]json.RawMessage
	if err != nil || json.Unmarshal(data, &fields) != nil {
		return false
	}
	field := map[session.Type]string{session.TypeStarted: "started"}[e.Type]
	_, ok := fields[cmp.Or(field, strings.ReplaceAll(string(e.Type), "-", "_"))]
	if !ok || len(fields) != 5 {
		return false
	}
	switch {
	case e.User != nil:
		return hasContent(e.User.Parts)
	case e.Result != nil:
		return hasContent(e.Result.Parts)
	case e.Activation != nil:
		return hasContent(e.Activation.Parts)
	case e.Answer != nil:
		return e.Answer.Message.Role == llm.Assistant && !slices.ContainsFunc(e.Answer.Message.Parts, func(p llm.Part) bool {
			return p.Result != nil || p.Call != nil && (p.Call.ID == "" || p.Call.Name == "")
		})
	}
	return true
}

// hasContent reports whether parts contain only text and media.
func hasContent(parts []llm.Part) bool {
	return !slices.ContainsFunc(parts, func(p llm.Part) bool {
		return p.Call != nil || p.Result != nil ||
			p.Thinking != nil
	})
}
