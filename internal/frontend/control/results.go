package control

import (
	"cmp"
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool/coding"
)

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
		x := changeResult{Path: d.Path, Patch: hunks(d.Diff)}
		if !d.Created {
			x.Original = originalOf(d, x.Patch)
		}
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
	// Original is the content before the change; null: the file is new, large, or has changed again.
	Original *string `json:"originalFile"`
}

// maxOriginal limits the files whose content before a change is computed, in bytes.
const maxOriginal = 1 << 20

// originalOf returns what a file was before a change, from what it is now; nil: that cannot be said.
func originalOf(d coding.ChangeDetails, patch []hunk) *string {
	if d.Size > maxOriginal {
		return nil
	}
	data, err := os.ReadFile(d.Path)
	if err != nil || len(data) != d.Size {
		return nil
	}
	now := strings.SplitAfter(string(data), "\n")
	var was strings.Builder
	at := 0 // lines of now that were used
	for _, h := range patch {
		start := h.NewStart - 1
		if h.NewLines == 0 {
			start = h.NewStart // the line after which something was removed
		}
		if start < at || start > len(now) {
			return nil
		}
		was.WriteString(strings.Join(now[at:start], ""))
		at = start
		noBreak := func(i int) bool { return i+1 < len(h.Lines) && strings.HasPrefix(h.Lines[i+1], `\`) }
		for i, line := range h.Lines {
			if line == "" || line[0] == '\\' {
				continue
			}
			text := line[1:] + "\n"
			if noBreak(i) {
				text = line[1:]
			}
			if line[0] != '-' {
				if at >= len(now) || now[at] != text {
					return nil
				}
				at++
			}
			if line[0] != '+' {
				was.WriteString(text)
			}
		}
	}
	was.WriteString(strings.Join(now[at:], ""))
	text := was.String()
	return &text
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
