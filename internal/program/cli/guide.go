package cli

import (
	"bytes"
	_ "embed"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/tool/coding"
)

//go:embed knack-guide.md
var guideText string

// guide returns the built-in agent that knows the help pages.
func guide() agent.Definition {
	var b strings.Builder
	b.Grow(52 << 10) // for all pages
	b.WriteString(strings.TrimSpace(guideText))
	for _, t := range topics {
		text, err := helpTexts.ReadFile("help/" + t.name + ".md")
		if err != nil {
			panic(err)
		}
		b.WriteString("\n\n<help topic=\"" + t.name + "\">\n")
		b.Write(bytes.TrimSpace(text))
		b.WriteString("\n</help>")
	}
	return agent.Definition{
		Name: "knack-guide",
		Description: "Answers questions about Knack itself - its skills, permissions, settings and commands - and finds " +
			"out why something does not work as expected.",
		Tools: strings.Split(coding.ReadOnly, ","), Prompt: b.String(), Origin: knack.Bundled,
	}
}
