package propose

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/session"
)

// Limits of evidence.
const (
	maxEvidence = 5
	minQuote    = 8   // characters
	maxQuote    = 500 // characters
)

// A passage is a quote that was found.
type passage struct{ whose, quote string }

// find finds the passages of a proposal in their sessions.
func (l live) find(all []evidence) (found []passage, err error) {
	if n := len(all); n == 0 || n > maxEvidence {
		return nil, fmt.Errorf("it needs 1 to %d passages as evidence", maxEvidence)
	}
	for _, e := range all {
		quote := words(e.Quote)
		if n := len([]rune(quote)); n < minQuote || n > maxQuote {
			return nil, fmt.Errorf("a passage has %d to %d characters", minQuote, maxQuote)
		}
		who, err := l.in(e.Session, quote)
		if err != nil {
			return nil, fmt.Errorf("the passage %q: %w", quote, err)
		}
		found = append(found, passage{who, quote})
	}
	return found, nil
}

// in finds a quote in a session, and says whose it is. Of another session counts only what the user typed: what its
// calls returned may be a stranger's.
func (l live) in(id, quote string) (who string, err error) {
	log := l.Log()
	if id == "" || id == log.ID() {
		if who := whose(log, quote, false); who != "" {
			return who, nil
		}
		return "", errors.New("it is not there: what the user typed, and the inputs and results of calls, are quoted " +
			"word for word")
	}
	p := l.Project()
	if log, err = p.Env().Sessions(p.Dir()).Read(id); err != nil {
		return "", err
	}
	defer log.Close()
	if log.Header().Imported || whose(log, quote, true) == "" {
		return "", errors.New("the user has not typed it in that session, and nothing else of another session is evidence")
	}
	return "you, in the session " + log.ID(), nil
}

// whose says whose a quote in a session is; "": it is not there.
func whose(log *session.Log, quote string, onlyTyped bool) string {
	for who, text := range passages(log) {
		if (!onlyTyped || who == you) && strings.Contains(words(text), quote) {
			return who
		}
	}
	return ""
}

// Who a passage is of: only what is known to be typed is the user's.
const (
	you    = "you"
	untold = "a message, not known to be typed"
)

// words returns the visible text with single spaces, so that a quote is found however lines were broken.
func words(text string) string {
	text, _ = plain.Visible(text)
	return strings.Join(strings.Fields(text), " ")
}

// passages returns what of a session can be evidence, with whose it is. What the model answered is not: it would prove
// whatever it says.
func passages(log *session.Log) iter.Seq2[string, string] {
	return func(yield func(who, text string) bool) {
		for e := range log.All() {
			switch {
			case e.User != nil:
				if !yield(you, e.User.Said()) ||
					e.User.Server == "" && !yield(untold, llm.JoinText(e.User.Parts, "\n")) {
					return
				}
			case e.Activation != nil && e.Activation.By == session.ByUser: // of what follows the name, more may be piped in
				if !yield(untold, "/"+e.Activation.Skill+" "+e.Activation.Args) {
					return
				}
			case e.Answer != nil:
				for _, p := range e.Answer.Message.Parts {
					if p.Call != nil && p.Call.Name != ToolName && !yield("a call of "+p.Call.Name, stringsIn(p.Call.Input)) {
						return
					}
				}
			case e.Result != nil && e.Result.Name != ToolName:
				if !yield("a result of "+e.Result.Name, e.Result.Text()) {
					return
				}
			}
		}
	}
}

// stringsIn returns the texts in a value of JSON, one a line.
func stringsIn(input json.RawMessage) string {
	var v any
	if json.Unmarshal(input, &v) != nil {
		return ""
	}
	var all []string
	var look func(any)
	look = func(v any) {
		switch v := v.(type) {
		case string:
			all = append(all, v)
		case []any:
			for _, x := range v {
				look(x)
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) { // the same quote is found in each run
				look(v[key])
			}
		}
	}
	look(v)
	return strings.Join(all, "\n")
}
