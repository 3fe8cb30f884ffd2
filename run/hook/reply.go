package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/knack-agent/knack/internal/leaf/similar"
)

// maxText limits a text from a hook, for the model or for the user, in characters.
const maxText = 10_000

// A reply is the answer of one hook. The zero reply has no effect.
type reply struct {
	vote       Vote
	block      bool
	reason     string
	input      json.RawMessage
	output     json.RawMessage // of a tool, instead of its own
	mcpOutput  json.RawMessage // the same, only for tools of MCP servers
	context    string
	message    string
	stop       bool
	stopReason string
	prompt     string   // in place of the user's
	said       string   // in answer to it: the model is not asked
	summary    string   // of a compaction
	answer     *Form    // to the question of a server
	watch      []string // files
	ask        *Question
	status     *string
	notify     string
	display    *string // in place of what is shown
}

// tells reports whether a model reads part of the answer.
func (r *reply) tells() bool {
	return r.context != "" || r.reason != "" && (r.block || r.vote != Nothing) || r.output != nil || r.mcpOutput != nil ||
		r.input != nil || r.stopReason != "" || r.prompt != "" || r.said != "" || r.summary != "" || r.answer != nil
}

// wire is the JSON that a hook prints.
type wire struct {
	Continue      *bool     `json:"continue"`
	StopReason    string    `json:"stopReason"`
	SystemMessage string    `json:"systemMessage"`
	Decision      string    `json:"decision"`
	Reason        string    `json:"reason"`
	Ask           *Question `json:"ask"`
	// Status is what a status line shows from now on, and Notify a message for which the user is called.
	Status   *string `json:"status"`
	Notify   string  `json:"notify"`
	Specific struct {
		Event        Event           `json:"hookEventName"`
		Decision     json.RawMessage `json:"decision"` // for PermissionRequest: an object
		Permission   string          `json:"permissionDecision"`
		Why          string          `json:"permissionDecisionReason"`
		UpdatedInput json.RawMessage `json:"updatedInput"`
		Context      string          `json:"additionalContext"`
		Output       json.RawMessage `json:"updatedToolOutput"`
		MCPOutput    json.RawMessage `json:"updatedMCPToolOutput"`
		Prompt       string          `json:"updatedPrompt"`
		Said         string          `json:"answer"`
		Summary      string          `json:"summary"`
		Action       string          `json:"action"`
		Content      map[string]any  `json:"content"`
		Watch        []string        `json:"watchPaths"`
		Display      *string         `json:"displayContent"`
	} `json:"hookSpecificOutput"`
}

// readReply parses the output of a hook. Empty output has no effect. Text that is not a JSON object
// becomes context for events at the start of a session or a prompt, and has no effect otherwise. An
// object that is not valid is an error.
//
// A first line {"async": true} tells the host not to wait. It has waited by then, and what counts is the next line.
func readReply(e Event, out []byte) (reply, error) {
	out = bytes.TrimSpace(out)
	var later struct{ Async bool }
	if first, rest, _ := bytes.Cut(out, []byte("\n")); json.Unmarshal(first, &later) == nil && later.Async {
		out, _, _ = bytes.Cut(bytes.TrimSpace(rest), []byte("\n"))
	}
	if len(out) == 0 {
		return reply{}, nil
	}
	if out[0] != '{' {
		switch e {
		case SessionStart, UserPromptSubmit, UserPromptExpansion:
			return reply{context: cutText(string(out))}, nil
		}
		return reply{}, nil
	}
	var w wire
	if err := json.Unmarshal(out, &w); err != nil {
		return reply{}, fmt.Errorf("what it printed cannot be read: %w", err)
	}
	if err := misspeltAnswer(out); err != nil {
		return reply{}, err
	}
	r := reply{
		reason: cutText(w.Reason), message: cutText(w.SystemMessage), context: cutText(w.Specific.Context),
		stop: w.Continue != nil && !*w.Continue, stopReason: cutText(w.StopReason),
	}
	if w.Specific.Event != "" && w.Specific.Event != e {
		return reply{}, fmt.Errorf("it answers the event %s, not %s", excerpt([]byte(w.Specific.Event)), e)
	}
	if w.Ask != nil {
		r.ask = w.Ask
		if err := w.Ask.Check(); err != nil {
			return reply{}, err
		}
	}
	r.status, r.notify = w.Status, cutText(w.Notify)
	if err := r.special(e, &w); err != nil {
		return reply{}, err
	}
	if e == PostToolUse || e == PostToolUseFailure {
		r.output, r.mcpOutput = given(w.Specific.Output), given(w.Specific.MCPOutput)
	}
	switch w.Decision {
	case "":
	case "block", "deny":
		r.vote, r.block = Deny, true
	case "approve", "allow":
		r.vote = Allow
	default:
		return reply{}, fmt.Errorf("decision is %s: block or approve is needed", excerpt([]byte(w.Decision)))
	}
	if err := r.permission(w.Specific.Permission, w.Specific.Why); err != nil {
		return reply{}, err
	}
	if err := r.rewrite(w.Specific.UpdatedInput); err != nil {
		return reply{}, err
	}
	if d := w.Specific.Decision; len(d) > 0 && string(d) != "null" {
		var own struct {
			Behavior     string          `json:"behavior"`
			Message      string          `json:"message"`
			UpdatedInput json.RawMessage `json:"updatedInput"`
			Interrupt    bool            `json:"interrupt"`
		}
		if err := json.Unmarshal(d, &own); err != nil {
			return reply{}, fmt.Errorf("hookSpecificOutput.decision cannot be read: %w", err)
		}
		if own.Behavior == "" {
			return reply{}, errors.New("hookSpecificOutput.decision has no behavior")
		}
		if err := r.permission(own.Behavior, own.Message); err != nil {
			return reply{}, err
		}
		if err := r.rewrite(own.UpdatedInput); err != nil {
			return reply{}, err
		}
		if own.Interrupt {
			r.stop, r.stopReason = true, cutText(own.Message)
		}
	}
	return r, nil
}

// special reads what only hooks of some events answer.
func (r *reply) special(e Event, w *wire) error {
	switch e {
	case UserPromptSubmit:
		r.prompt, r.said = strings.TrimSpace(w.Specific.Prompt), cutText(w.Specific.Said)
		if len(r.prompt) > MaxOutput/2 {
			return fmt.Errorf("updatedPrompt has %d bytes: at most %d are used", len(r.prompt), MaxOutput/2)
		}
	case MessageDisplay:
		r.display = w.Specific.Display
	case PreCompact:
		r.summary = cutText(w.Specific.Summary)
	case Elicitation, ElicitationResult:
		switch w.Specific.Action {
		case "":
		case actionAccept, actionDecline, actionCancel:
			r.answer = &Form{Action: w.Specific.Action, Content: w.Specific.Content}
		default:
			return fmt.Errorf("action is %s: accept, decline or cancel is needed", excerpt([]byte(w.Specific.Action)))
		}
	case SessionStart, CwdChanged, FileChanged:
		for _, path := range w.Specific.Watch {
			if filepath.IsAbs(path) {
				r.watch = append(r.watch, filepath.Clean(path))
			}
		}
	}
	return nil
}

// The values of Form.Action.
const (
	actionAccept  = "accept"
	actionDecline = "decline"
	actionCancel  = "cancel"
)

// misspeltAnswer returns an error if an answer has a member that is nearly one which decides, or is one in the wrong
// place: what it was to decide is not known.
func misspeltAnswer(answer []byte) error {
	var all, specific map[string]json.RawMessage
	if json.Unmarshal(answer, &all) != nil {
		return nil // reported already
	}
	json.Unmarshal(all["hookSpecificOutput"], &specific)
	for _, object := range []struct {
		members    map[string]json.RawMessage
		deciding   []string // here
		everywhere []string // that belong elsewhere
		where      string
	}{
		{all, []string{"continue", "decision", "hookSpecificOutput"},
			[]string{"permissionDecision", "behavior", "updatedInput"}, "hookSpecificOutput"},
		{specific, []string{"permissionDecision", "decision", "updatedInput"}, []string{"continue", "behavior"},
			"another object"},
	} {
		for _, key := range slices.Sorted(maps.Keys(object.members)) {
			near := func(name string) bool { return similar.Near(key, name, 2) }
			same := func(name string) bool { return strings.EqualFold(key, name) }
			switch {
			case slices.ContainsFunc(object.deciding, same):
			case slices.ContainsFunc(object.everywhere, near):
				return fmt.Errorf("its answer has %.100q in the wrong place: it belongs into %s", key, object.where)
			case slices.ContainsFunc(object.deciding, near):
				return fmt.Errorf("its answer has %.100q; did you mean %s", key,
					object.deciding[slices.IndexFunc(object.deciding, near)])
			}
		}
	}
	return nil
}

// given returns a member of an answer; nil if it is missing or null.
func given(data json.RawMessage) json.RawMessage {
	if string(data) == "null" {
		return nil
	}
	return data
}

// permission applies a vote given as a permissionDecision.
func (r *reply) permission(word, why string) error {
	vote := Nothing
	switch word {
	case "":
	case "allow":
		vote = Allow
	case "ask", "defer":
		vote = Ask
	case "deny":
		vote = Deny
	default:
		return fmt.Errorf("permissionDecision is %s: allow, ask or deny is needed", excerpt([]byte(word)))
	}
	if vote > r.vote {
		r.vote = vote
	}
	r.block = r.block || vote == Deny
	if why != "" {
		r.reason = cutText(why)
	}
	return nil
}

func (r *reply) rewrite(in json.RawMessage) error {
	if len(in) == 0 || string(in) == "null" {
		return nil
	}
	if kind(in) != '{' {
		return fmt.Errorf("updatedInput is %s: an object is needed", excerpt(in))
	}
	r.input = in
	return nil
}

// cutText cuts a text to maxText characters.
func cutText(s string) string {
	s = strings.TrimSpace(strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) <= maxText || utf8.RuneCountInString(s) <= maxText {
		return s
	}
	n := 0
	for i := range s {
		if n++; n > maxText {
			return s[:i] + fmt.Sprintf("\n[%d more bytes are left out.]", len(s)-i)
		}
	}
	return s
}

// excerpt quotes the beginning of a hook's output.
func excerpt(b []byte) string {
	s := strings.ToValidUTF8(string(b[:min(len(b), 200)]), "")
	if r := []rune(s); len(r) > 60 {
		s = string(r[:60]) + "…"
	}
	return fmt.Sprintf("%q", s)
}
