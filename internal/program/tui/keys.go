package tui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/knack-agent/knack/internal/program/terminal"
)

// An action is what a key does at the prompt.
type action string

const (
	actSubmit      action = "submit"
	actNewline     action = "newline"
	actFollowUp    action = "follow-up"
	actInterrupt   action = "interrupt"
	actClear       action = "clear"
	actExit        action = "exit"
	actSuspend     action = "suspend"
	actMode        action = "mode"
	actThinking    action = "thinking"
	actResult      action = "result"
	actOutput      action = "output"
	actEditor      action = "editor"
	actSearch      action = "search"
	actImage       action = "image"
	actComplete    action = "complete"
	actUnqueue     action = "unqueue"
	actRedraw      action = "redraw"
	actHistoryBack action = "history-back"
	actHistoryNext action = "history-forward"
	actHelp        action = "help"
	actSteps       action = "steps"
	actBackground  action = "background"
	actSendNow     action = "send-now"
	actLeave       action = "leave"
)

// actions lists the actions with their default keys and descriptions.
var actions = []struct {
	action action
	keys   []string
	help   string
}{
	{actSubmit, []string{"enter"}, "send; during a turn, after the tools that run"},
	{actNewline, []string{"shift+enter", "alt+enter", "ctrl+j"}, "start a new line"},
	{actFollowUp, []string{"alt+q"}, "send when the turn has ended"},
	{actSendNow, []string{"alt+n"}, "send this, or the queued message, now"},
	{actUnqueue, []string{"alt+up"}, "edit the last queued message"},
	{actBackground, []string{"ctrl+b"}, "let the running command go on in the background"},
	{actLeave, []string{"alt+g"}, "leave; the session goes on in the background"},
	{actInterrupt, []string{"esc"}, "interrupt; twice: go back to a message"},
	{actClear, []string{"ctrl+c"}, "clear the prompt; twice: exit"},
	{actExit, []string{"ctrl+d"}, "exit at an empty prompt"},
	{actSuspend, []string{"ctrl+z"}, "suspend (fg resumes)"},
	{actMode, []string{"shift+tab"}, "change the permission mode"},
	{actThinking, []string{"ctrl+t"}, "show or hide reasoning; between turns: past ones"},
	{actResult, []string{"ctrl+o"}, "show all of the last turns: calls and results"},
	{actSteps, []string{"alt+t"}, "show or hide the list of steps between turns"},
	{actOutput, []string{"alt+o"}, "attach the output of the last ! command"},
	{actEditor, []string{"ctrl+g"}, "edit the prompt in $VISUAL or $EDITOR"},
	{actSearch, []string{"ctrl+r"}, "search earlier prompts"},
	{actImage, []string{"ctrl+v"}, "paste an image from the clipboard"},
	{actComplete, []string{"tab"}, "complete a command, skill or file"},
	{actRedraw, []string{"ctrl+l"}, "redraw what is below the conversation"},
	{actHistoryBack, []string{"ctrl+p"}, "earlier prompt (also: up)"},
	{actHistoryNext, []string{"ctrl+n"}, "later prompt (also: down)"},
	{actHelp, []string{"?"}, "list the keys, at an empty prompt"},
}

// fixedKeys lists the keys that cannot be rebound: those of the editor, and characters with a meaning.
var fixedKeys = []struct{ keys, help string }{
	{"left right ctrl+b ctrl+f", "move by one character"},
	{"alt+left alt+right alt+b alt+f", "move by one word"},
	{"home end ctrl+a ctrl+e", "move to the start or the end of the line"},
	{"backspace delete", "delete a character"},
	{"ctrl+w alt+backspace alt+d", "cut a word"},
	{"ctrl+u ctrl+k", "cut to the start or the end of the line"},
	{"ctrl+y alt+y", "paste what was cut; what was cut before it"},
	{"ctrl+_ alt+_", "undo, redo"},
	{"/ at the start", "a command or a skill"},
	{"! at the start", "a shell command of yours; !!: without the sandbox"},
	{"/vim", "Vim's keys; setting editorMode"},
	{"@ before a name", "a file, an agent or a resource to attach"},
}

// bindings maps keys to actions.
type bindings map[string]action

func defaultBindings() bindings {
	b := bindings{}
	for _, a := range actions {
		for _, k := range a.keys {
			b[k] = a.action
		}
	}
	return b
}

// claudeActions maps actions of Claude Code's keybindings.json to those here. The others belong to lists and pages that
// have fixed keys here, or to what does not exist here.
var claudeActions = map[string]action{
	"app:interrupt": actClear, "app:exit": actExit, "app:redraw": actRedraw, "app:toggleTodos": actSteps,
	"app:toggleTranscript": actResult, "history:search": actSearch, "history:previous": actHistoryBack,
	"history:next": actHistoryNext, "chat:cancel": actInterrupt, "chat:clearInput": actClear,
	"chat:cycleMode": actMode, "chat:submit": actSubmit, "chat:newline": actNewline,
	"chat:externalEditor": actEditor, "chat:imagePaste": actImage, "task:background": actBackground,
	"autocomplete:accept": actComplete,
}

// addClaude reads Claude Code's keybindings.json: its keys are added to the default ones, and null unbinds a key. What
// is not an action here, and keys that are pressed one after the other, are passed over. A missing file changes
// nothing.
func (b bindings) addClaude(file string) error {
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) || file == "" {
		return nil
	}
	if err != nil {
		return err
	}
	var in struct {
		Bindings []struct {
			Context  string
			Bindings map[string]*string
		}
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	was := maps.Clone(b)
	for _, block := range in.Bindings {
		if !slices.Contains([]string{"Global", "Chat", "Task", "Autocomplete"}, block.Context) {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(block.Bindings)) {
			key, ok := claudeKey(name)
			act := block.Bindings[name]
			switch {
			case !ok:
			case act == nil:
				delete(b, key)
			case claudeActions[*act] != "":
				b[key] = claudeActions[*act]
			}
		}
	}
	if !slices.Contains(slices.Collect(maps.Values(b)), actSubmit) {
		clear(b)
		maps.Copy(b, was)
		return fmt.Errorf("%s: no key is left to send a message", file)
	}
	return nil
}

// claudeKey converts the name of a key in Claude Code's file. ok is false for keys that are pressed one after the
// other, and for modifiers that terminals do not report.
func claudeKey(name string) (key string, ok bool) {
	if strings.ContainsAny(strings.TrimSpace(name), " \t") {
		return "", false
	}
	parts := strings.Split(strings.TrimSpace(name), "+")
	if strings.HasSuffix(name, "++") || name == "+" { // the key + itself
		parts = append(parts[:len(parts)-2], "+")
	}
	held := map[string]bool{}
	for _, m := range parts[:len(parts)-1] {
		switch strings.ToLower(m) {
		case "ctrl", "control":
			held["ctrl+"] = true
		case "alt", "opt", "option", "meta":
			held["alt+"] = true
		case "shift":
			held["shift+"] = true
		default:
			return "", false
		}
	}
	key = parts[len(parts)-1]
	if len(held) > 0 || utf8.RuneCountInString(key) > 1 {
		key = strings.ToLower(key)
	}
	key = cmp.Or(map[string]string{"escape": "esc", "return": "enter", "del": "delete", "ins": "insert"}[key], key)
	out := ""
	for _, m := range modifiers {
		if held[m] {
			out += m
		}
	}
	return out + key, key != ""
}

// loadBindings reads Claude Code's file, see addClaude, and then a file such as {"mode": "ctrl+x", "submit":
// ["enter"]}. A missing file changes nothing. An action in the second file loses its other keys; "" or [] leaves it
// without a key.
func loadBindings(file, claude string) (bindings, error) {
	b := defaultBindings()
	if err := b.addClaude(claude); err != nil {
		return b, err
	}
	data, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return b, nil
	}
	if err != nil {
		return b, err
	}
	var set map[action]json.RawMessage
	if err := json.Unmarshal(data, &set); err != nil {
		return b, fmt.Errorf("%s: %w", file, err)
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		known := slices.IndexFunc(actions, func(a struct {
			action action
			keys   []string
			help   string
		}) bool {
			return a.action == name
		})
		if known < 0 {
			return b, fmt.Errorf("%s: there is no action %q; knack help keys lists them", file, name)
		}
		var keys []string
		var one string
		switch {
		case json.Unmarshal(set[name], &one) == nil:
			if one != "" {
				keys = []string{one}
			}
		case json.Unmarshal(set[name], &keys) != nil:
			return b, fmt.Errorf("%s: %s must be a key or a list of keys", file, name)
		}
		maps.DeleteFunc(b, func(_ string, a action) bool { return a == name })
		for _, k := range keys {
			b[strings.ToLower(k)] = name
		}
	}
	if !slices.Contains(slices.Collect(maps.Values(b)), actSubmit) {
		return defaultBindings(), fmt.Errorf("%s: no key is left to send a message", file)
	}
	return b, nil
}

// of returns the action bound to a key.
func (b bindings) of(k terminal.Key) action {
	if k.Name == "text" {
		return b[k.Text]
	}
	return b[k.String()]
}

// keys returns the keys of an action, separated by blanks; "": it has none.
func (b bindings) keys(act action) string {
	var keys []string
	for _, k := range slices.Sorted(maps.Keys(b)) {
		if b[k] == act {
			keys = append(keys, k)
		}
	}
	return strings.Join(keys, " ")
}

// first returns one of the keys of an action; "": it has none.
func (b bindings) first(act action) string {
	key, _, _ := strings.Cut(b.keys(act), " ")
	return key
}

// help lists all keys.
func (b bindings) help() string {
	var out strings.Builder
	for _, a := range actions {
		fmt.Fprintf(&out, "%-30s %s\n", b.keys(a.action), a.help)
	}
	for _, f := range fixedKeys {
		fmt.Fprintf(&out, "%-30s %s\n", f.keys, f.help)
	}
	return out.String()
}

// A KeyAction is what keys can be bound to.
type KeyAction struct {
	Action  string `json:"action"`
	Keys    string `json:"keys"`              // separated by blanks; "": none
	Default string `json:"default,omitempty"` // what they are without the file, if that differs
	Help    string `json:"help"`
}

// Keys returns the actions with the keys that a file, and Claude Code's, bind them to, and an error that says what is
// wrong with a file. A missing file changes nothing.
func Keys(file, claude string) ([]KeyAction, error) {
	b, err := loadBindings(file, claude)
	if err == nil {
		err = b.check(file)
	}
	defaults := defaultBindings()
	var all []KeyAction
	for _, a := range actions {
		k := KeyAction{string(a.action), b.keys(a.action), defaults.keys(a.action), a.help}
		if k.Default == k.Keys {
			k.Default = ""
		}
		all = append(all, k)
	}
	return all, err
}

// modifiers in the order in which a key names them.
var modifiers = []string{"ctrl+", "alt+", "shift+"}

// check returns an error for a key that the terminal never sends under this name.
func (b bindings) check(file string) error {
	for _, k := range slices.Sorted(maps.Keys(b)) {
		name := k
		for _, m := range modifiers {
			name = strings.TrimPrefix(name, m)
		}
		named := slices.Contains(strings.Fields("enter tab esc space backspace delete insert up down left right home end "+
			"pageup pagedown f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 f12"), name)
		if !named && utf8.RuneCountInString(name) != 1 {
			return fmt.Errorf("%s: %q is not a key; knack help keys says how keys are written", file, k)
		}
	}
	return nil
}

// HelpKeys is the text of `knack help keys`.
func HelpKeys() string { return defaultBindings().help() }
