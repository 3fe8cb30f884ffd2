package engine

import (
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/browser"
	"github.com/knack-agent/knack/run/tool/web"
)

// browserTools makes the browser of a session and returns its tools; nil: the workspace is not on this machine, or
// there is no browser. It looks for the program, but starts nothing.
func browserTools(s *Session, p *Project) tool.Set {
	local, ok := s.ws.(*workspace.Local)
	program := p.chromium()
	if !ok || program == "" || p.bundled.Closed("browser") != "" {
		return nil
	}
	box := s.engine.box // does not change after the workspace was opened
	s.browser = browser.New(browser.Options{
		Workspace: local, Program: program,
		Unconfined: func() bool { return box == nil || box.Report().Level == sandbox.None },
		Carries: func(text string) string {
			if web.Carries(text, s.reads.secretTexts()) {
				return "it contains text that this session read from a secret"
			}
			return ""
		},
	})
	return s.browser.Tools()
}
