package eval

import (
	"encoding/json"
	"fmt"
	"time"
)

// A Set is what is asked of one skill. Readers of files make it; the zero Set asks nothing.
type Set struct {
	Skill string `json:"skill"` // the name of the skill, as its SKILL.md says it
	// Dir is the folder of the skill, absolute. The Files of its cases are relative to it.
	Dir     string   `json:"dir,omitempty"`
	Files   []string `json:"files,omitempty"` // the files that the set was read from, absolute
	Queries []Query  `json:"queries,omitempty"`
	Cases   []Case   `json:"cases,omitempty"`
}

// A Query is a prompt of which is known whether it should call the skill of its Set.
type Query struct {
	Query  string `json:"query"`
	Should bool   `json:"should_trigger"`
	// Skill is the skill that should be called instead of that of the Set; "": that of the Set, or if Should is false,
	// any other or none.
	Skill string `json:"skill,omitempty"`
}

// A Case is a task whose result can be checked.
type Case struct {
	ID     string `json:"id"` // unique in its Set; recordings have its name
	Prompt string `json:"prompt"`
	// Expected says in words what the result should be, for people and for the judge; "": nothing is said.
	Expected string   `json:"expected_output,omitempty"`
	Files    []string `json:"files,omitempty"` // copied to the trial's directory; relative to Dir of the Set
	// Fixture is a directory whose content the trial begins with, relative to Dir of the Set; "": an empty one.
	Fixture string   `json:"fixture,omitempty"`
	Checks  []Check  `json:"assertions,omitempty"`
	Tags    []string `json:"tags,omitempty"`
	// Mocks are answers that replace what a command or a tool would return; they run nothing.
	Mocks    []Mock        `json:"mocks,omitempty"`
	Trials   int           `json:"trials,omitempty"`   // 0: as many as the run says
	Requests int           `json:"requests,omitempty"` // limit for one trial; 0: as the run says
	Timeout  time.Duration `json:"timeout,omitempty"`  // for one trial; 0: as the run says
}

// A Mock answers calls of a tool in the place of the tool.
type Mock struct {
	Tool  string          `json:"tool"`            // the name that the model calls
	Match json.RawMessage `json:"match,omitempty"` // fields that the input must have; nil: any input
	Text  string          `json:"text"`            // what the call returns
	Error bool            `json:"error,omitempty"` // whether the call fails with Text
}

// A CheckType says what a Check looks at.
type CheckType string

const (
	// Judged is a plain sentence about the trial, which a judge decides.
	Judged            CheckType = "judge"
	Contains          CheckType = "contains"         // the answer contains Value
	Matches           CheckType = "regex"            // the answer matches the regular expression Value, in the syntax of Go
	FileExists        CheckType = "file-exists"      // the directory has a file that matches the glob Path
	FileContains      CheckType = "file-contains"    // the file Path contains Value
	FileMatches       CheckType = "file-regex"       // the file Path matches the regular expression Value
	JSONPath          CheckType = "json-path"        // in the file Path, or the answer if it is "", At has the value Value
	CommandExits      CheckType = "command"          // the command line Value exits with Exit, in the sandbox
	TranscriptMatches CheckType = "transcript-regex" // the transcript matches the regular expression Value
	Snapshot          CheckType = "snapshot"         // each file of the directory Path is in the trial's, with the same bytes
	ToolUsed          CheckType = "tool-used"        // the tool Value was called, with inputs that match Pattern
	ToolOrder         CheckType = "tool-order"       // the tools of Values were called in this order; others may be between them
)

// A Check is something that must be true after a trial.
type Check struct {
	Type CheckType `json:"type"`
	// Text says for people what is checked; for Judged it is the sentence. "": String makes one.
	Text    string   `json:"text,omitempty"`
	Value   string   `json:"value,omitempty"`
	Values  []string `json:"values,omitempty"`
	Path    string   `json:"path,omitempty"` // relative to the directory of the trial; for Snapshot, to that of the Set
	At      string   `json:"at,omitempty"`   // for JSONPath: names and indexes, as in $.rows[0].total
	Pattern string   `json:"pattern,omitempty"`
	Exit    int      `json:"exit,omitempty"`
	// Min and Max are how often a tool must be called, for ToolUsed. 0: once, and any number.
	Min    int     `json:"min,omitempty"`
	Max    int     `json:"max,omitempty"`
	Not    bool    `json:"not,omitempty"`    // passes if it would fail, but not if its file cannot be read
	Weight float64 `json:"weight,omitempty"` // its part of the score of a trial; 0: 1
	// WithOnly checks are not made without the skill, such as that the skill was called, and do not count for the
	// difference.
	WithOnly bool `json:"with_only,omitempty"`
}

// String says what is checked.
func (c Check) String() string {
	if c.Text != "" {
		return c.Text
	}
	not := ""
	if c.Not {
		not = "not: "
	}
	switch c.Type {
	case Contains:
		return fmt.Sprintf("%sthe answer contains %q", not, c.Value)
	case Matches:
		return fmt.Sprintf("%sthe answer matches /%s/", not, c.Value)
	case TranscriptMatches:
		return fmt.Sprintf("%sthe transcript matches /%s/", not, c.Value)
	case FileExists:
		return fmt.Sprintf("%sthere is a file %s", not, c.Path)
	case FileContains:
		return fmt.Sprintf("%s%s contains %q", not, c.Path, c.Value)
	case FileMatches:
		return fmt.Sprintf("%s%s matches /%s/", not, c.Path, c.Value)
	case JSONPath:
		where := c.Path
		if where == "" {
			where = "the answer"
		}
		return fmt.Sprintf("%s%s has %s = %s", not, where, c.At, c.Value)
	case CommandExits:
		return fmt.Sprintf("%s%s exits with %d", not, c.Value, c.Exit)
	case Snapshot:
		return fmt.Sprintf("%sthe files are those of %s", not, c.Path)
	case ToolUsed:
		return fmt.Sprintf("%sthe tool %s is called", not, c.Value)
	case ToolOrder:
		return fmt.Sprintf("%sthe tools %q are called in this order", not, c.Values)
	}
	return not + string(c.Type)
}

// Runs reports whether the check runs something that the set names. A set that is not trusted cannot.
func (c Check) Runs() bool { return c.Type == CommandExits }

// A Config is one of the conditions that a run compares.
type Config string

const (
	With    Config = "with"    // the skill is in the listing
	Without Config = "without" // it is not; everything else is the same
	Old     Config = "old"     // an older version of it is, from a git ref or a directory
)

// A Key identifies one conversation of a run. Equal keys in two runs ask for the same.
type Key struct {
	Case   string `json:"case"` // the ID of a Case, or "query-N", with N from 1
	Config Config `json:"config"`
	Trial  int    `json:"trial"`           // from 1
	Judge  bool   `json:"judge,omitempty"` // the judge's requests about the trial
}

// A Problem is something in a file that was left out, or that a run could not do.
type Problem struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`   // from 1; 0: not known
	Column  int    `json:"column,omitempty"` // from 1, in bytes; 0: not known
	Case    string `json:"case,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`    // what to write instead
	Warning bool   `json:"warning,omitempty"` // nothing was left out for it
}

// String returns the problem in one line, with its position.
func (p Problem) String() string {
	s := p.Message
	if p.Case != "" {
		s = p.Case + ": " + s
	}
	switch {
	case p.File == "":
	case p.Line == 0:
		s = p.File + ": " + s
	case p.Column == 0:
		s = fmt.Sprintf("%s:%d: %s", p.File, p.Line, s)
	default:
		s = fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, s)
	}
	if p.Hint != "" {
		s += " (" + p.Hint + ")"
	}
	return s
}
