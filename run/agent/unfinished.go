package agent

import (
	"strings"

	"github.com/knack-agent/knack/run/llm"
)

// An Unfinished says why the last answer of a run is not the end of its work.
type Unfinished string

const (
	AnswerCut     Unfinished = "cut"     // it reached the limit of the model's answers
	AnswerEmpty   Unfinished = "empty"   // it has neither text nor calls
	AnswerPaused  Unfinished = "paused"  // the provider interrupted it
	AnswerRefused Unfinished = "refused" // the model or its provider refused to answer
)

// maxContinued is how often in a row the model is asked to go on after an answer that is not finished.
const maxContinued = 2

// unfinished returns why an answer without calls is not finished; "": it is.
func unfinished(answer *llm.Response) Unfinished {
	switch {
	case answer.Stop == llm.Refusal:
		return AnswerRefused
	case answer.Stop == llm.Paused:
		return AnswerPaused
	case answer.Stop == llm.MaxTokens:
		return AnswerCut
	case answer.Stop == llm.EndTurn && strings.TrimSpace(llm.TextOf(answer.Message.Parts)) == "":
		return AnswerEmpty
	}
	return ""
}

// A continuation is the state of an answer that the model was asked to go on with.
type continuation struct {
	times int    // in a row
	text  string // of the cut answer so far; "": none was cut
}

// next returns what the model, and people, are told if it must go on after an answer without calls; "": the run ends.
// The text of the run is that of all parts of the answer.
func (c *continuation) next(answer *llm.Response, end *End) (model, people string) {
	end.Unfinished = unfinished(answer)
	if c.text != "" {
		end.Text = c.text + llm.TextOf(answer.Message.Parts)
	}
	if end.Unfinished == "" || end.Unfinished == AnswerRefused || c.times >= maxContinued {
		*c = continuation{}
		return "", ""
	}
	c.times++
	switch end.Unfinished {
	case AnswerCut:
		if c.text == "" {
			c.text = llm.TextOf(answer.Message.Parts)
		} else {
			c.text = end.Text
		}
		return "Your answer was cut because it reached the limit of its length. Go on exactly where it stopped, " +
			"without repeating anything, and work in smaller pieces.", "the answer reached its limit and is continued"
	case AnswerEmpty:
		return "Your answer was empty. Go on with the task, or say what the result is.",
			"the answer was empty; the model is asked once more"
	}
	// Some models refuse a request that ends with their own words.
	return "Your answer was interrupted. Go on.", "the provider interrupted the answer; it is continued"
}
