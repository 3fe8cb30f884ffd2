package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/session"
)

// statusLineTimeout limits a status line's command.
const statusLineTimeout = 2 * time.Second

// statusLine returns the command of the setting statusLine as a hook, which runs where hooks of the same file run; nil:
// there is none.
func (u *userHooks) statusLine() *hook.Hook {
	p := u.project
	parts := p.config.Raw["statusLine"]
	if len(parts) == 0 || p.options.Bare {
		return nil
	}
	var line struct {
		Type, Command string
	}
	if json.Unmarshal(parts[0].JSON, &line) != nil || line.Command == "" || line.Type != "" && line.Type != "command" {
		return nil
	}
	return &hook.Hook{Type: hook.OfCommand, Command: line.Command, Origin: string(parts[0].Origin),
		DefinedIn: parts[0].Path}
}

// all returns the hooks of the settings and the status line, whose scripts are bound to the bytes of now.
func (u *userHooks) all() []hook.Hook {
	all := slices.Clone(u.project.hooks)
	if h := u.statusLine(); h != nil {
		all = append(all, *h)
	}
	return all
}

// StatusLine runs the command of the setting statusLine and returns the first line that it prints, in which colours and
// other control sequences are left out or escaped. "": there is no such setting, or the line is empty. The command has
// 2 s.
func (t *Turn) StatusLine(ctx context.Context) (string, error) {
	h := t.project.own.statusLine()
	if h == nil || t.hooks == nil {
		return "", nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, statusLineTimeout,
		fmt.Errorf("it took longer than %s", statusLineTimeout))
	defer cancel()
	scripts, err := t.hooks.verify(h)
	if err != nil {
		return "", err
	}
	input, err := json.Marshal(t.statusInput())
	if err != nil {
		return "", err
	}
	out, err := t.runHook(ctx, hook.Process{Hook: h, Line: h.Command, Stdin: append(input, '\n'), Scripts: scripts})
	switch {
	case err != nil:
		return "", err
	case out.Code != 0:
		first, _, _ := strings.Cut(strings.TrimSpace(string(out.Stderr)), "\n")
		return "", fmt.Errorf("exit code %d: %s", out.Code, plain.Line(first))
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out.Stdout)), "\n")
	return strings.TrimSpace(plain.Line(sequences().ReplaceAllString(first, ""))), nil
}

// sequences matches colours and links.
var sequences = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("\x1b\\[[0-9;:]*m|\x1b\\]8;[^\x07\x1b]*(?:\x07|\x1b\\\\)")
})

// statusInput is what a status line's command gets, with the names that Claude Code uses.
func (t *Turn) statusInput() any {
	type object = map[string]any
	s, p := t.session, t.project
	name := s.modelName()
	cost := 0.0
	for x := range session.Spending(s.log.Entries()...) {
		cost += x.Cost
	}
	in := object{
		"hook_event_name": "Status", "session_id": s.log.ID(), "cwd": s.place.ws().Dir(), "version": p.Version(),
		"model":        object{"id": name, "display_name": name[strings.LastIndexByte(name, '/')+1:]},
		"workspace":    object{"current_dir": s.place.ws().Dir(), "project_dir": p.root},
		"output_style": object{"name": p.config.Settings.OutputStyle},
		"cost":         object{"total_cost_usd": cost},
		"context_window": object{"context_window_size": s.modelInfo().Window,
			"total_input_tokens": t.lastInput()},
	}
	if s.Recorded() {
		in["transcript_path"] = filepath.Join(p.options.Env.Sessions(p.dir).Dir, s.log.ID()+".jsonl")
	}
	return in
}

// lastInput returns the size in tokens of the last request.
func (t *Turn) lastInput() int {
	last := t.session.log.State().Last
	return last.Input + last.CacheRead + last.CacheWrite
}
