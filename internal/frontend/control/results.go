package control

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool/coding"
)

// keepBefore keeps what a file was before a call changed it, until the result is recorded.
func (o *Messages) keepBefore(e *agent.Ended) {
	if d, ok := e.Result.Details.(coding.ChangeDetails); ok && d.Before != nil {
		o.originals[e.Call] = d.Before
	}
}

// details returns the details of a result; for hosts, those of bash, edit and write also have the members that hosts
// know.
func (o *Messages) details(r *session.Result) json.RawMessage {
	if !o.host || o.session == nil || r.IsError && len(r.Details) == 0 {
		return r.Details
	}
	name := r.Name
	if t, ok := o.session.Now().Tool(name); ok {
		name = t.Name
	}
	var more any
	switch name {
	case "bash":
		var d coding.BashDetails
		if json.Unmarshal(r.Details, &d) != nil {
			return r.Details
		}
		out := llm.TextOf(r.Parts)
		if d.Status != "" {
			out = strings.TrimSuffix(out, "\n\n"+d.Status)
		}
		if d.Job != "" {
			out = "" // the text is about the job
		}
		more = bashResult{out, "", d.Aborted || d.TimedOut, d.Job}
	case "edit", "write":
		var d coding.ChangeDetails
		if json.Unmarshal(r.Details, &d) != nil || d.Path == "" {
			return r.Details
		}
		x := changeResult{Path: d.Path, Patch: hunks(d.Diff), Original: o.originals[r.ID]}
		delete(o.originals, r.ID)
		if name == "write" {
			x.Type = "update"
			if d.Created {
				x.Type = "create"
			}
		}
		more = x
	default:
		return r.Details
	}
	return merged(r.Details, more)
}

// A bashResult has the members of a command's result that hosts know.
type bashResult struct {
	Stdout      string `json:"stdout"` // with standard error, in the order in which both were written
	Stderr      string `json:"stderr"` // always ""
	Interrupted bool   `json:"interrupted"`
	Job         string `json:"backgroundTaskId,omitempty"`
}

// A changeResult has the members of the result of edit and write that hosts know.
type changeResult struct {
	Type  string `json:"type,omitempty"` // for write: create, update
	Path  string `json:"filePath"`       // absolute
	Patch []hunk `json:"structuredPatch"`
	// Original is the content before the change; null: the file is new, large or no text.
	Original *string `json:"originalFile"`
}

// A hunk is a part of a unified diff.
type hunk struct {
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
func hunks(diff string) []hunk {
	all := []hunk{}
	number := func(s string) int {
		n, _ := strconv.Atoi(cmp.Or(s, "1")) // without a number it is one line
		return n
	}
	for line := range strings.Lines(diff) {
		line = strings.TrimSuffix(line, "\n")
		if m := hunkHead().FindStringSubmatch(line); m != nil {
			all = append(all, hunk{number(m[1]), number(m[2]), number(m[3]), number(m[4]), []string{}})
		} else if n := len(all); n > 0 {
			all[n-1].Lines = append(all[n-1].Lines, line)
		}
	}
	return all
}

// merged adds the members of more, an object, to those of data. Those of data win.
func merged(data json.RawMessage, more any) json.RawMessage {
	added, err := json.Marshal(more)
	all := map[string]json.RawMessage{}
	if err != nil || json.Unmarshal(added, &all) != nil || json.Unmarshal(data, &all) != nil {
		return data
	}
	out, err := json.Marshal(all)
	if err != nil {
		return data
	}
	return out
}
