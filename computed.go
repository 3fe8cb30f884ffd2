package knack

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// A Part is a piece of a computed text: a text, or an image.
type Part struct {
	Text  string
	Image []byte
	MIME  string // of Image, such as image/png
}

// TextPart returns the parts of a computed text that is only text.
func TextPart(text string) []Part { return []Part{{Text: text}} }

// A Snapshot shows a computed skill the session that called it, as it was at that moment. It is a copy. What a host
// does not know is zero.
type Snapshot struct {
	ID    string // of the session
	Dir   string // the working directory
	Model string
	Mode  string // the permission mode
	// Used is the size of what the model sees, in tokens, and Window how much fits; 0: unknown.
	Used, Window int
	Turns        int      // the user turns so far
	Cost         float64  // US dollars
	Tools        []string // what the model may call, by name
	Skills       []string // the skills in use
	Waiting      []string // questions that wait for the user's answer
	Jobs         []string // background commands that are running
	// Moments are what happened on the branch of the conversation that goes on, oldest first.
	Moments []Moment
}

// A MomentKind says what a Moment is.
type MomentKind string

const (
	MomentUser       MomentKind = "user"       // a message of the user
	MomentAnswer     MomentKind = "answer"     // text of the model
	MomentCall       MomentKind = "call"       // a call of a tool, with its result
	MomentSkill      MomentKind = "skill"      // a skill came into use
	MomentNote       MomentKind = "note"       // a note of the program
	MomentCompaction MomentKind = "compaction" // what came before was summarised
	MomentEnd        MomentKind = "end"        // the end of a user turn
)

// A Moment is one thing that happened in a session.
type Moment struct {
	Entry int // in the session's log
	Time  time.Time
	Kind  MomentKind
	// Text is the message, the answer, the result of a call, the arguments of a skill, the note, or why a turn ended.
	Text    string
	Name    string          // of the tool or the skill
	Input   json.RawMessage // of a call
	Failed  bool            // the call failed, or the turn did not end by itself
	Refused string          // why the call was refused; "": it was not
	Open    bool            // the call has no result yet
}

// compute adds computed parts before or in place of a text: their texts to the text, their images to the Activation.
func (a *Activation) compute(ctx context.Context, in Invocation, f func(context.Context, Invocation) ([]Part, error)) (
	string, error) {
	parts, err := f(ctx, in)
	if err != nil {
		return "", refuse(RefusedUnread, "%s has no text: %v", a.Skill.Name, err)
	}
	for _, p := range parts {
		if len(p.Image) > 0 {
			a.Images = append(a.Images, p)
		}
	}
	return textOf(parts), nil
}

// textOf joins the texts of parts with empty lines.
func textOf(parts []Part) string {
	var texts []string
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}
