package show

import (
	"fmt"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/run/session"
)

// generalAgent is the name of the agent for everything.
const generalAgent = "general-purpose"

// TaskCells is the width of the task in the line of a sub-agent. Windows narrower than two of them have the name or the
// task.
const TaskCells = 30

// Agent returns the name of a sub-agent and its task; "": it has none.
func Agent(name, task string, width int) styled.Line {
	task = styled.Cut(plain.Line(task), min(TaskCells, max(width/3, 1)))
	switch {
	case task != "" && name == generalAgent: // the name says nothing
		return styled.S(styled.Bold, task)
	case task == "" || width < 2*TaskCells:
		return styled.S(styled.Bold, plain.Line(name))
	}
	return styled.Line{{Text: plain.Line(name), Style: styled.Bold}, {Text: " " + task}}
}

// AgentEnd describes a sub-agent that has ended as its line did while it worked: what for, and what that took.
func AgentEnd(a *session.Agent, width int) styled.Line {
	l := Agent(a.Name, a.Task, width)
	if a.Reason != session.EndDone {
		why := "  " + string(a.Reason)
		if a.Error != "" {
			why += ": " + a.Error
		}
		l = append(l, styled.Span{Text: plain.Line(Start(why, headingCells)), Style: styled.Warn})
	}
	var took []string
	tokens := 0
	for _, u := range a.Usage {
		tokens += u.Output
	}
	if a.Denials > 0 {
		took = append(took, plain.Count(a.Denials, "call")+" refused")
	}
	if tokens > 0 {
		took = append(took, plain.Number(tokens)+" tokens")
	}
	if a.Cost > 0 {
		took = append(took, fmt.Sprintf("$%.4f", a.Cost))
	}
	if len(took) == 0 {
		took = []string{plain.Count(a.Requests, "request")}
	}
	return append(l, styled.Span{Text: "  " + strings.Join(took, " · "), Style: styled.Dim})
}
