package hook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/internal/leaf/jsonc"
	"github.com/knack-agent/knack/internal/leaf/similar"
)

// A Problem is a mistake in a hooks setting that its author should know about.
type Problem struct {
	At          int // the byte offset in the text
	Message     string
	KeptInvalid bool // the hook is used nevertheless
	Minor       bool // and does what matters
	// Guard is the guard that a misspelt event probably means; "": it is another problem. Its hooks do
	// not run, so the calls that they should guard would run unchecked.
	Guard    Event
	Required bool // one of the hooks of Guard is required
	Foreign  bool // the event is one of other agents: nothing is wrong with the file
}

// maxTimeout is the longest timeout that a hook may have.
const maxTimeout = 24 * time.Hour

// Parse reads the mapping {Event: [{matcher, hooks: […]}]} of settings and skills, or a skill's
// list [{event, path or command}]. It reports each mistake as a Problem and uses the rest. An
// invalid guard is not left out: it always fails, so that the calls it guards do not run unchecked.
// rule reports whether a text is a valid permission rule; nil: every text is.
func Parse(text []byte, rule func(string) error) ([]Hook, []Problem) {
	p := parser{rule: rule}
	text = jsonc.Plain(text)
	switch kind(text) {
	case '{':
		p.mapping(text)
	case '[':
		p.list(text)
	case 'n': // null
	default:
		p.unclear(Hook{Event: PreToolUse}, 0, "hooks are a mapping from events to matchers, or a list")
	}
	return p.hooks, p.problems
}

type parser struct {
	rule     func(string) error
	hooks    []Hook
	problems []Problem
}

func (p *parser) problem(at int, format string, args ...any) {
	p.problems = append(p.problems, Problem{At: at, Message: fmt.Sprintf(format, args...)})
}

// unclear reports a part of the hooks that cannot be understood. If it may hold a guard, there is one that always
// fails, so that the calls do not run unchecked.
func (p *parser) unclear(h Hook, at int, format string, args ...any) {
	why := fmt.Sprintf(format, args...)
	if !h.Event.Guards() {
		p.problem(at, "%s: %s", h.Event, why)
		return
	}
	h.Type, h.invalid = OfCommand, why
	p.hooks = append(p.hooks, h)
	p.problem(at, "%s: %s: the calls that it guards need approval, and are refused where there is no user to ask",
		h.Event, why)
}

func (p *parser) mapping(text []byte) {
	each(text, func(event value, v value) {
		e, why := eventOf(event.key)
		if why != "" {
			required := false
			if e != "" {
				meant := parser{rule: p.rule}
				each(v.text, func(_, m value) { meant.matcher(e, m) }, nil)
				required = slices.ContainsFunc(meant.hooks, func(h Hook) bool { return h.Required })
			}
			p.problems = append(p.problems, Problem{At: event.at, Message: why, Guard: e, Required: required,
				Foreign: Foreign(event.key)})
			return
		}
		if kind(v.text) == 'n' { // null
			return
		}
		if kind(v.text) != '[' {
			p.unclear(Hook{Event: e}, v.at, "it is not followed by a list of matchers")
			return
		}
		each(v.text, func(_, m value) {
			m.at += v.at
			p.matcher(e, m)
		}, nil)
	}, func(at int, err error) { p.unclear(Hook{Event: PreToolUse}, at, "%v", err) })
}

// matcher reads {matcher, hooks: […]}.
func (p *parser) matcher(e Event, m value) {
	if kind(m.text) != '{' {
		p.unclear(Hook{Event: e}, m.at, "a matcher is not an object")
		return
	}
	h := Hook{Event: e}
	problem := ""
	var hooks *value
	each(m.text, func(key, v value) {
		v.at += m.at
		switch key.key {
		case "matcher":
			if json.Unmarshal(v.text, &h.Matcher) != nil {
				problem = "the matcher is not a string"
			}
		case "hooks":
			hooks = &v
		case "description", "id":
		default:
			p.keepInvalid(m.at+key.at, "%s: %q is not a key of a matcher; it is ignored", e, key.key)
		}
	}, nil)
	if problem == "" {
		if err := h.compile(); err != nil {
			problem = err.Error()
		}
	}
	if hooks == nil || kind(hooks.text) != '[' {
		p.unclear(h, m.at, "a matcher has no list hooks")
		return
	}
	each(hooks.text, func(_, v value) {
		v.at += hooks.at
		p.hook(h, v, problem)
	}, nil)
}

// list reads [{event, path or command}].
func (p *parser) list(text []byte) {
	each(text, func(_, v value) {
		var h struct{ Event string }
		if kind(v.text) != '{' || json.Unmarshal(v.text, &h) != nil {
			p.unclear(Hook{Event: PreToolUse}, v.at, "a hook is not an object with an event")
			return
		}
		e, why := eventOf(h.Event)
		if why != "" {
			p.problems = append(p.problems, Problem{At: v.at, Message: why, Guard: e, Foreign: Foreign(h.Event)})
			return
		}
		p.hook(Hook{Event: e, Type: OfCommand}, v, "")
	}, func(at int, err error) { p.unclear(Hook{Event: PreToolUse}, at, "%v", err) })
}

func (p *parser) keepInvalid(at int, format string, args ...any) {
	p.problems = append(p.problems, Problem{At: at, Message: fmt.Sprintf(format, args...), KeptInvalid: true})
}

// hook reads one hook. wrong describes what is wrong with its matcher; "" if nothing is.
func (p *parser) hook(h Hook, v value, wrong string) {
	if kind(v.text) != '{' {
		p.unclear(h, v.at, "a hook is not an object")
		return
	}
	onFailure := ""
	listed := h.Type != "" // it is in the list form
	var seconds *float64
	shell := "bash"
	at := v.at
	each(v.text, func(key, f value) {
		read := func(to any, what string) {
			if json.Unmarshal(f.text, to) != nil || kind(f.text) == 'n' {
				if wrong == "" {
					wrong, at = fmt.Sprintf("%s is not %s", key.key, what), v.at+f.at
				}
			}
		}
		switch key.key {
		case "type":
			read(&h.Type, "a string")
		case "command":
			read(&h.Command, "a string")
		case "args":
			read(&h.Args, "a list of strings")
		case "path":
			read(&h.Path, "a string")
		case "url":
			read(&h.URL, "a string")
		case "prompt":
			read(&h.Prompt, "a string")
		case "if":
			read(&h.If, "a string")
		case "timeout":
			read(&seconds, "a number of seconds")
		case "once":
			read(&h.Once, "true or false")
		case "async":
			read(&h.Async, "true or false")
		case "required":
			if read(&h.Required, "true or false"); wrong != "" && kind(f.text) != 'f' {
				h.Required = true // a wrong value other than false: the safer reading is true
			}
		case "onFailure":
			if read(&onFailure, "continue or block"); wrong == "" && onFailure != "continue" && onFailure != "block" {
				wrong, at = "onFailure is not continue or block", v.at+f.at
			}
			h.Required = h.Required || onFailure != "continue" // a value that means nothing: the safer reading
		case "event", "matcher":
			if !listed {
				p.keepInvalid(v.at+key.at, "%s: %q is not a key of a hook; it is ignored", h.Event, key.key)
			} else if key.key == "matcher" {
				read(&h.Matcher, "a string")
			}
		case "asyncRewake":
			read(&h.Rewake, "true or false")
			h.Async = h.Async || h.Rewake
		case "shell":
			read(&shell, "a string")
		case "description", "id": // for people
		case "statusMessage", "model", "rewakeMessage", "rewakeSummary":
			p.problems = append(p.problems, Problem{At: v.at + key.at, KeptInvalid: true, Minor: true,
				Message: fmt.Sprintf("%s: %q has no effect here", h.Event, key.key)})
		default:
			if meant := nearRequired(key.key); meant != "" && h.Event.Guards() {
				h.Required = true
				if wrong == "" {
					wrong, at = fmt.Sprintf("%q is not a key of a hook; did you mean %s", key.key, meant), v.at+key.at
				}
				return
			}
			p.keepInvalid(v.at+key.at, "%s: %q is not a key of a hook; it is ignored", h.Event, key.key)
		}
	}, nil)
	if wrong == "" && listed {
		if err := h.compile(); err != nil {
			wrong = err.Error()
		}
	}
	if h.Type == "agent" {
		h.Type = OfPrompt
		p.keepInvalid(v.at, "%s: an agent hook is one question to the fast model here, without tools", h.Event)
	}
	if wrong == "" && shell != "bash" {
		wrong = fmt.Sprintf("the shell %q is not supported: only bash", shell)
	}
	if wrong == "" {
		wrong = h.check(seconds, listed, p.rule)
	}
	if wrong == "" {
		if h.Required && !h.Event.Guards() && onFailure == "" {
			h.Required = false
			p.keepInvalid(v.at, "%s: required applies only to events that decide: PreToolUse, PermissionRequest, PreModelSwitch", h.Event)
		}
		p.hooks = append(p.hooks, h)
		return
	}
	if h.Event.Guards() { // its answer is unknown, so it always fails
		h.invalid, h.Async, h.Once = wrong, false, false
		p.hooks = append(p.hooks, h)
		what := "the calls that it guards need approval, and are refused where there is no user to ask"
		if h.Required {
			what = "it is required, so calls that it guards are refused"
		}
		p.problem(at, "%s: %s: %s", h.Event, wrong, what)
		return
	}
	p.problem(at, "%s: %s: the hook was left out", h.Event, wrong)
}

// nearRequired returns the key that makes a guard block if it fails and that a misspelt one probably means; "": none.
func nearRequired(key string) string {
	for _, k := range []string{"required", "onFailure"} {
		if similar.Near(key, k, 2) {
			return k
		}
	}
	return ""
}

// check describes what is wrong with a hook as a whole; "" if nothing is.
func (h *Hook) check(seconds *float64, listed bool, rule func(string) error) string {
	if h.Type == "" && h.Command != "" {
		h.Type = OfCommand
	}
	set := func(s string) bool { return strings.TrimSpace(s) != "" }
	switch h.Type {
	case "":
		return "it has no type"
	case OfCommand:
		switch {
		case h.Path != "" && !listed:
			return "path is only for hooks of a skill: write a command"
		case h.Path != "" && set(h.Command):
			return "it has both path and command"
		case h.Path != "" && !set(h.Path):
			return "its path is blank"
		case h.Path != "":
			if p := strings.ReplaceAll(h.Path, `\`, "/"); path.IsAbs(p) || strings.Contains(p, ":") || p != "" &&
				strings.HasPrefix(path.Clean(p), "..") {
				return fmt.Sprintf("%q is not inside the skill's directory", h.Path)
			}
		case !set(h.Command):
			return "it has no command"
		}
		if strings.ContainsRune(h.Command+h.Path+strings.Join(h.Args, ""), 0) {
			return "the command contains a NUL byte"
		}
	case OfHTTP:
		u, err := url.Parse(h.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Sprintf("url: %q is not an http or https URL", h.URL)
		}
		if u.User != nil {
			return "url: it contains a password"
		}
	case OfPrompt:
		if !set(h.Prompt) {
			return "it has no prompt"
		}
	default:
		return fmt.Sprintf("the type %q must be one of command, http and prompt", h.Type)
	}
	if seconds != nil {
		if !(*seconds > 0) || *seconds > maxTimeout.Seconds() {
			return fmt.Sprintf("timeout is %g: a number of seconds between 0 and %g is needed", *seconds, maxTimeout.Seconds())
		}
		h.Timeout = time.Duration(*seconds * float64(time.Second))
	}
	if h.Async && h.Required && h.Event.Guards() {
		return "an async hook is not waited for, so it cannot be required"
	}
	if h.If != "" {
		if !h.Event.OfTool() {
			return "if applies only to tool events"
		}
		if rule != nil {
			if err := rule(h.If); err != nil {
				return fmt.Sprintf("if: %v", err)
			}
		}
	}
	return ""
}

// Foreign reports whether other agents have an event of this name, and Knack has not.
func Foreign(name string) bool {
	return name == "TeammateIdle"
}

// eventOf finds an event by name. why explains why there is none; e is then the guard that the name
// probably means, or "".
func eventOf(name string) (e Event, why string) {
	if slices.Contains(Events(), Event(name)) {
		return Event(name), ""
	}
	if Foreign(name) {
		return "", name + " is an event of other agents; Knack has no such event"
	}
	if e = Nearest(name); e != "" {
		why = fmt.Sprintf("%q is not an event; did you mean %s", name, e)
		if !e.Guards() {
			e = ""
		}
		return e, why
	}
	return "", fmt.Sprintf("%q is not an event", name)
}

// Nearest returns the event that a misspelt name probably means: the one whose name differs by the fewest letters, and
// of two the guard; "": all differ by more than two.
func Nearest(name string) (e Event) {
	const most = 2
	far := most + 1
	for _, near := range Events() {
		d := similar.Distance(strings.ToLower(name), strings.ToLower(string(near)), most)
		if d < far || d == far && d <= most && near.Guards() {
			e, far = near, d
		}
	}
	return e
}

// A value is a piece of JSON with its offset in the text that was passed to each.
type value struct {
	at   int
	key  string // for a key
	text json.RawMessage
}

func kind(text []byte) byte {
	text = bytes.TrimLeft(text, " \t\r\n")
	if len(text) == 0 {
		return 0
	}
	return text[0]
}

// each calls do for the members of an object, or for the items of a list, whose keys are empty. If
// the text is not complete JSON, it calls failed, if that is not nil, with the offset of the error.
func each(text []byte, do func(key, v value), failed func(at int, err error)) {
	d := json.NewDecoder(bytes.NewReader(text))
	fail := func(err error) {
		if failed != nil {
			failed(int(d.InputOffset()), err)
		}
	}
	open, err := d.Token()
	if err != nil {
		fail(err)
		return
	}
	for d.More() {
		var key, v value
		if open == json.Delim('{') {
			t, err := d.Token()
			if err != nil {
				fail(err)
				return
			}
			key.key, _ = t.(string)
			quoted, _ := json.Marshal(key.key)
			key.at = max(0, int(d.InputOffset())-len(quoted))
		}
		if err := d.Decode(&v.text); err != nil {
			fail(err)
			return
		}
		v.at = int(d.InputOffset()) - len(v.text)
		do(key, v)
	}
	if _, err := d.Token(); err != nil {
		fail(err)
	}
}
