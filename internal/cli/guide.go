package cli

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/engine"
)

//go:embed knack-guide.md
var guideText []byte

// guide returns the built-in agent that knows the help pages.
func guide() agent.Definition {
	d, problems, ok := agent.ParseDefinition("knack-guide.md", guideText, knack.Bundled, engine.KnownTools().AllNames()...)
	if !ok || len(problems) > 0 {
		panic(fmt.Sprint("cli: knack-guide.md: ", problems)) // the file is embedded, so this is a bug
	}
	d.Path = ""
	var b strings.Builder
	b.WriteString(d.Prompt)
	for _, t := range topics {
		text, err := helpTexts.ReadFile("help/" + t.name + ".md")
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "\n\n<help topic=\"%s\">\n%s\n</help>", t.name, strings.TrimSpace(string(text)))
	}
	d.Prompt = b.String()
	return d
}
