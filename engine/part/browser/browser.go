// Package browser is the part with a browser of the session's own.
package browser

import (
	"context"
	"embed"

	"github.com/knack-agent/knack/bundled"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/chromium"
	"github.com/knack-agent/knack/run/tool/browser"
	"github.com/knack-agent/knack/run/tool/web"
)

//go:embed browser/SKILL.md
var skill embed.FS

// Part is the browser, with which the bundled skill browser works. It is off where no Chromium is installed, and where
// the workspace is not on this machine.
func Part() engine.Part {
	return engine.Part{Name: "browser", Open: open,
		Known: func(engine.Brought) engine.PartTools {
			return engine.PartTools{Unlisted: browser.New(browser.Options{}).Tools()}
		},
		Skills: map[string]engine.PartSkill{"browser": {Files: skill, Gate: bundled.Gate{Feature: "browser",
			Aliases: []string{"claude-in-chrome"}, Closed: "neither Chromium nor Chrome was found"},
			Open: func(p *engine.Project) bool { return program(p) != "" }}}}
}

// program returns the browser that is installed; "": there is none.
func program(p *engine.Project) string { return chromium.Find(p.Env().Get) }

// open makes the browser of a session. It looks for the program, but starts nothing.
func open(_ context.Context, c *engine.Conv) (*engine.Live, error) {
	place, p := c.Place(), c.Project()
	local, ok := place.Workspace.(*workspace.Local)
	file := program(p)
	if !ok || file == "" || p.SkillClosed("browser") != "" {
		return nil, nil
	}
	b := browser.New(browser.Options{
		Workspace: local, Program: file,
		Unconfined: func() bool { return place.Sandbox == nil || place.Sandbox.Report().Level == sandbox.None },
		Carries: func(text string) string {
			if known, _ := c.Reads().Secrets(); web.Carries(text, known) {
				return "it contains text that this session read from a secret"
			}
			return ""
		},
	})
	return &engine.Live{Tools: func() engine.PartTools { return engine.PartTools{Unlisted: b.Tools()} },
		Close: b.Close}, nil
}
