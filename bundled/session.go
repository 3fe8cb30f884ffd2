package bundled

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// ofSession are the skills that get a report on the session before their text.
var ofSession = map[string]func(knack.Snapshot) string{"stuck": progress, "skillify": history}

// report returns what stands before the text of a skill of the session; nil: the skill is none.
func report(skill string) func(context.Context, knack.Invocation) ([]knack.Part, error) {
	f := ofSession[skill]
	if f == nil {
		return nil
	}
	return func(_ context.Context, in knack.Invocation) ([]knack.Part, error) {
		if in.Session == nil {
			return knack.TextPart("(In a session, a report on it stands here.)"), nil
		}
		return knack.TextPart(f(in.Session())), nil
	}
}

// A repeated is something that happened several times.
type repeated struct {
	what        string
	times, same int // calls, and how many of them had the last result
	failed      int
	last        string
	first, end  int // entries
}

// atLeast is how often something must happen to be reported as a loop.
const atLeast = 3

// progress reports what may keep a session from making progress.
func progress(s knack.Snapshot) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "- "+format+"\n", args...) }
	calls, failures, refusals := map[string]*repeated{}, map[string]*repeated{}, map[string]*repeated{}
	count := func(m map[string]*repeated, what string, k knack.Moment) {
		r := m[what]
		if r == nil {
			r = &repeated{what: what, first: k.Entry}
			m[what] = r
		}
		if r.times++; k.Text == r.last {
			r.same++
		} else {
			r.same, r.last = 1, k.Text
		}
		if r.end = k.Entry; k.Failed {
			r.failed++
		}
	}
	made, failed, compactions := 0, 0, 0
	var open, ends []string
	for _, k := range s.Moments {
		switch k.Kind {
		case knack.MomentCompaction:
			compactions++
		case knack.MomentEnd:
			if k.Failed {
				ends = append(ends, fmt.Sprintf("%s (entry %d)", k.Text, k.Entry))
			}
		case knack.MomentCall:
			made++
			if k.Failed {
				failed++
			}
			what := k.Name + " " + inputOf(k.Input, 160)
			switch {
			case k.Open && k.Name != "Skill": // the call of this skill is under way
				open = append(open, fmt.Sprintf("%s (entry %d)", what, k.Entry))
			case k.Refused != "":
				count(refusals, what+": "+k.Refused, k)
			case k.Failed:
				count(calls, what, k)
				count(failures, k.Name+": "+firstLine(k.Text, 160), k)
			default:
				count(calls, what, k)
			}
		}
	}
	line("%s, %s of tools (%d failed), $%.2f; mode %s; model %s", plain.Count(s.Turns, "user turn"),
		plain.Count(made, "call"), failed, s.Cost, cmp.Or(s.Mode, "unknown"), cmp.Or(s.Model, "unknown"))
	switch full := 100 * s.Used / max(1, s.Window); {
	case s.Window == 0:
		line("the model's window is not known; the conversation has about %s tokens", plain.Number(s.Used))
	case full >= 80:
		line("THE WINDOW IS NEARLY FULL: %d%% (%s of %s tokens)", full, plain.Number(s.Used), plain.Number(s.Window))
	default:
		line("the window is %d%% full (%s of %s tokens)", full, plain.Number(s.Used), plain.Number(s.Window))
	}
	if compactions > 0 {
		line("the conversation was summarised %s", plain.Count(compactions, "time"))
	}
	found := false
	list := func(title string, m map[string]*repeated, least int, show func(*repeated) string) {
		all := slices.DeleteFunc(slices.Collect(maps.Values(m)), func(r *repeated) bool { return r.times < least })
		order.Stable(all, func(x, y *repeated) int {
			return cmp.Or(cmp.Compare(y.times, x.times), cmp.Compare(x.first, y.first))
		})
		for _, r := range all[:min(5, len(all))] {
			found = true
			line("%s: %s", title, show(r))
		}
	}
	list("LOOP", calls, atLeast, func(r *repeated) string {
		text := fmt.Sprintf("%s, %d times (entries %d to %d)", r.what, r.times, r.first, r.end)
		if r.same > 1 {
			text += fmt.Sprintf(", the last %d with the same result", r.same)
		}
		return text + ": " + firstLine(r.last, 160)
	})
	list("THE SAME FAILURE", failures, atLeast, func(r *repeated) string {
		return fmt.Sprintf("%s, %d times (entries %d to %d)", r.what, r.times, r.first, r.end)
	})
	list("REFUSED", refusals, 1, func(r *repeated) string { return fmt.Sprintf("%s, %d×", r.what, r.times) })
	each := func(title string, all []string) {
		for _, x := range all {
			found = true
			line("%s: %s", title, firstLine(x, 200))
		}
	}
	each("NO RESULT YET", open)
	each("WAITS FOR THE USER", s.Waiting)
	each("RUNS IN THE BACKGROUND", s.Jobs)
	each("A TURN DID NOT END BY ITSELF", ends)
	if !found {
		line("no loop, no refused call, no call without a result, no waiting question")
	}
	return "What the session shows, counted by the program:\n" + strings.TrimRight(b.String(), "\n")
}

// Limits of history, in bytes.
const (
	maxHistory = 32 << 10
	maxMessage = 1500
	maxInput   = 400
)

// history lists what the user asked for and what was done, oldest first. If it is too long, the middle is left out.
func history(s knack.Snapshot) string {
	var lines []string
	size := 0
	for _, k := range s.Moments {
		var text string
		switch k.Kind {
		case knack.MomentUser:
			text = "user: " + cut(strings.TrimSpace(k.Text), maxMessage)
		case knack.MomentAnswer:
			text = "model: " + firstLine(k.Text, maxInput)
		case knack.MomentSkill:
			text = strings.TrimSpace("skill " + k.Name + " " + firstLine(k.Text, maxInput))
		case knack.MomentCall:
			state := "ok"
			switch {
			case k.Open:
				continue
			case k.Refused != "":
				state = "REFUSED by " + k.Refused
			case k.Failed:
				state = "FAILED: " + firstLine(k.Text, 200)
			}
			text = "  " + k.Name + " " + inputOf(k.Input, maxInput) + " → " + state
		default:
			continue
		}
		lines = append(lines, text)
		size += len(text) + 1
	}
	if n := len(lines); size > maxHistory {
		var head, tail []string
		room := maxHistory / 2
		for i := 0; i < n && room > len(lines[i]); i++ {
			head, room = append(head, lines[i]), room-len(lines[i])-1
		}
		room = maxHistory / 2
		for i := n - 1; i >= len(head) && room > len(lines[i]); i-- {
			tail, room = append(tail, lines[i]), room-len(lines[i])-1
		}
		slices.Reverse(tail)
		lines = slices.Concat(head, []string{fmt.Sprintf("(%d more left out)", n-len(head)-len(tail))}, tail)
	}
	if len(lines) == 0 {
		return "This session has no messages yet."
	}
	return "What happened in this session, oldest first:\n<session>\n" + strings.Join(lines, "\n") + "\n</session>"
}

// inputOf returns the input of a call on one line, the same for inputs that differ only in how they are written.
func inputOf(input json.RawMessage, limit int) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(input))
	d.UseNumber()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if d.Decode(&v) != nil || e.Encode(v) != nil {
		return firstLine(string(input), limit)
	}
	return cut(strings.TrimSpace(b.String()), limit)
}

func firstLine(text string, limit int) string {
	text, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	if more {
		text += " …"
	}
	return cut(text, limit)
}

// cut returns at most limit bytes of text, without hidden characters.
func cut(text string, limit int) string {
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return plain.Text(text)
}
