package agent

import (
	_ "embed"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/tool/coding"
)

const (
	agentTool    = "Agent"
	defaultAgent = "general-purpose"
)

var (
	//go:embed prompts/general-purpose.md
	generalText string
	//go:embed prompts/explore.md
	exploreText string
	//go:embed prompts/plan.md
	planText string
	//go:embed prompts/subagent.md
	subText string
)

// GeneralPurpose returns the agent for skills with context: fork that do not name one. It has the same tools as the
// agent that starts it.
func GeneralPurpose() Definition {
	return Definition{
		Name: defaultAgent,
		Description: "Researches, searches and carries out tasks of several steps on its own. Use it for work whose steps " +
			"need not be seen here.",
		Prompt: strings.TrimSpace(generalText), Origin: knack.Bundled,
	}
}

// BuiltIn returns the agents that always exist: GeneralPurpose, Explore and Plan.
func BuiltIn() []Definition {
	return []Definition{GeneralPurpose(), {
		Name: "Explore",
		Description: "Searches and reads widely, changes nothing, and reports briefly what it found, with paths and lines. " +
			"Use it to find out where and how something is done.",
		Prompt: strings.TrimSpace(exploreText), Tools: readingTools(), Mode: permission.Plan, Origin: knack.Bundled,
	}, {
		Name: "Plan",
		Description: "Reads what a task touches, changes nothing, and ends with a plan of steps. Use it before a change " +
			"that spans several files.",
		Prompt: strings.TrimSpace(planText), Tools: readingTools(), Mode: permission.Plan, Origin: knack.Bundled,
	}}
}

// readingTools returns the names of the tools that change nothing.
func readingTools() []string { return strings.Split(coding.ReadOnly, ",") }
