package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/similar"
	"github.com/knack-agent/knack/run/hook"
)

// What a host misspells in initialize would guard nothing, and nobody would notice. So what is nearly a name is an
// error, and what resembles no name is a problem that the answer lists.

// maxSlip is by how many letters a misspelt name may differ.
const maxSlip = 2

// membersWithoutEffect are members of initialize that hosts send, and that restrict nothing.
var membersWithoutEffect = []string{"subtype", "agentProgressSummaries", "excludeDynamicSections", "forwardSubagentText",
	"promptSuggestions", "sdkMcpServerManifests", "sdkMcpServerManifestsOrigin", "supportedDialogKinds",
	"systemPromptSnapshot"}

// unknownMembers returns the members of an object that neither a struct nor more has. One that is nearly the name of
// one that exists is an error.
func unknownMembers(object json.RawMessage, known any, more ...string) (unknown []string, err error) {
	var all map[string]json.RawMessage
	if err := decode(object, &all); err != nil {
		return nil, err
	}
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(known)) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		same := func(n string) bool { return strings.EqualFold(n, name) } // as encoding/json does
		near := slices.IndexFunc(names, func(n string) bool { return nearly(name, n) })
		switch {
		case slices.ContainsFunc(names, same), slices.ContainsFunc(more, same):
		case near >= 0:
			return nil, fmt.Errorf("%.100q is no member; did you mean %s", name, names[near])
		default:
			unknown = append(unknown, name)
		}
	}
	return unknown, nil
}

func nearly(name, known string) bool {
	return similar.Near(name, known, maxSlip)
}

// checkEvent describes what is wrong with the name of an event that no agent has: it was to guard something.
func checkEvent(name string) error {
	switch near := hook.Nearest(name); {
	case slices.Contains(hook.Events(), hook.Event(name)):
		return nil
	case near != "":
		return fmt.Errorf("%.100q is not an event; did you mean %s", name, near)
	}
	return fmt.Errorf("%.100q is not an event; the events are %s", name,
		strings.Trim(fmt.Sprint(hook.Events()), "[]"))
}

// meantInitialize reports whether a request is an initialize, or a misspelt one: it is if it has no subtype at all.
func meantInitialize(kind subtype) bool {
	return kind == "" || nearly(string(kind), string(subtypeInitialize))
}

// unreadInitialize reports whether a line that cannot be read is, or may be, an initialize, and returns its ID, if that
// can be read. Any request may be one of which only the beginning is known.
func unreadInitialize(line []byte) (id string, ok bool) {
	var f map[string]json.RawMessage
	if json.Unmarshal(bytes.TrimPrefix(line, []byte("\ufeff")), &f) != nil {
		return "", bytes.Contains(line, []byte(`"`+string(subtypeInitialize)+`"`)) ||
			len(line) >= headOfLine && bytes.Contains(line, []byte(`"request`))
	}
	json.Unmarshal(f["request_id"], &id)
	return id, f["request"] != nil && meantInitialize(subtypeOf(f["request"]))
}

// badInitialize is an initialize that cannot be read, in its place between the lines: it fails there, as one with wrong
// members does, so that no message after it is answered without the guards that it wanted to give.
func badInitialize(l inputLine, id string, why error) queuedFrame {
	return queuedFrame{line: l, frame: frame{Type: typeControlRequest, ID: id,
		Request: json.RawMessage(`{"subtype":"` + string(subtypeInitialize) + `"}`)},
		bad: fmt.Errorf("line %d: %w", l.number, why)}
}

// errWithdrawn is the cause for ending a request that the host has withdrawn.
var errWithdrawn = errors.New("withdrawn by the host")

// openRequests are the host's requests that have no answer yet, by their IDs. Two may have the same.
type openRequests map[string][]openRequest

// An openRequest can be ended while it is handled.
type openRequest struct {
	ctx context.Context
	end context.CancelCauseFunc
}

func (o openRequests) add(ctx context.Context, id string) (r openRequest) {
	r.ctx, r.end = context.WithCancelCause(ctx)
	o[id] = append(o[id], r)
	return r
}

// withdraw ends the requests of an ID. They get no answer.
func (o openRequests) withdraw(id string) {
	for _, r := range o[id] {
		r.end(errWithdrawn)
	}
}

// remove ends one request, and reports whether the host has withdrawn it.
func (o openRequests) remove(id string, r openRequest) (withdrawn bool) {
	withdrawn = errors.Is(context.Cause(r.ctx), errWithdrawn)
	r.end(nil)
	if o[id] = slices.DeleteFunc(o[id], func(x openRequest) bool { return x.ctx == r.ctx }); len(o[id]) == 0 {
		delete(o, id)
	}
	return withdrawn
}
