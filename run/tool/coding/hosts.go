package coding

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/knack-agent/knack/run/llm"
)

// A BashResult has the members of a command's result that hooks and host programs of other agents know.
type BashResult struct {
	Stdout      string `json:"stdout"` // with standard error, in the order in which both were written
	Stderr      string `json:"stderr"` // always ""
	Interrupted bool   `json:"interrupted"`
	Job         string `json:"backgroundTaskId,omitempty"`
}

// ForHosts returns the members that hosts know. text is that of the result.
func (d BashDetails) ForHosts(text string) BashResult {
	if d.Status != "" {
		text = strings.TrimSuffix(text, "\n\n"+d.Status)
	}
	if d.Job != "" || text == llm.NoOutput {
		text = "" // it is about the job, or says that there is none
	}
	return BashResult{Stdout: text, Interrupted: d.Aborted || d.TimedOut, Job: d.Job}
}

// A ChangeResult has the members of the result of edit and write that hooks and host programs of other agents know.
type ChangeResult struct {
	Type  string `json:"type,omitempty"` // for write: create, update
	Path  string `json:"filePath"`       // absolute
	Patch []Hunk `json:"structuredPatch"`
	// Original is the content before the change; null: the file is new, large or no text.
	Original *string `json:"originalFile"`
}

// ForHosts returns the members that hosts know. write says that write made the change, not edit.
func (d ChangeDetails) ForHosts(write bool) ChangeResult {
	r := ChangeResult{Path: d.Path, Patch: hunks(d.Diff), Original: d.Before}
	switch {
	case write && d.Created:
		r.Type = "create"
	case write:
		r.Type = "update"
	}
	return r
}

// A Hunk is a part of a unified diff.
type Hunk struct {
	OldStart int      `json:"oldStart"`
	OldLines int      `json:"oldLines"`
	NewStart int      `json:"newStart"`
	NewLines int      `json:"newLines"`
	Lines    []string `json:"lines"` // each begins with a blank, + or -
}

// hunkHead matches the first line of a hunk.
var hunkHead = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)
})

// hunks splits a unified diff.
func hunks(diff string) []Hunk {
	all := []Hunk{}
	number := func(s string) int {
		n, _ := strconv.Atoi(cmp.Or(s, "1")) // without a number it is one line
		return n
	}
	for line := range strings.Lines(diff) {
		line = strings.TrimSuffix(line, "\n")
		if m := hunkHead().FindStringSubmatch(line); m != nil {
			all = append(all, Hunk{number(m[1]), number(m[2]), number(m[3]), number(m[4]), []string{}})
		} else if n := len(all); n > 0 {
			all[n-1].Lines = append(all[n-1].Lines, line)
		}
	}
	return all
}
