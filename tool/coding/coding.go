// Package coding provides read, bash, edit, write, grep, find, ls, ask and todo.
//
// Most people want [Tools]: all of them, on one workspace. Which of them a run
// has is for [tool.Select] to say, from [Default], [ReadOnly] or [All].
package coding

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/knack-agent/knack/tool"
	"github.com/knack-agent/knack/workspace"
)

// Sets of tools, as [tool.Select] takes them.
const (
	Default  = "read,bash,bash_output,bash_kill,edit,write,grep,find,ls,ask,todo"
	ReadOnly = "read,grep,find,ls"
	All      = "*"
)

// Choice turns what a user types into what [tool.Select] takes: the names of sets
// (none, all, readOnly, coding and default) are replaced by the names of their
// tools. base is the set that default means.
func Choice(spec, base string) string {
	sets := map[string]string{"none": "", "all": All, "readonly": ReadOnly, "read-only": ReadOnly, "coding": Default,
		"default": base}
	var out []string
	for i, term := range strings.FieldsFunc(spec, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		name := strings.TrimLeft(term, "+-")
		set, ok := sets[strings.ToLower(name)]
		if !ok {
			out = append(out, term)
			continue
		}
		sign := strings.TrimSuffix(term, name)
		if i == 0 && sign == "" {
			out = append(out, "-*") // this set and no other
			sign = "+"
		}
		for _, t := range strings.FieldsFunc(set, func(r rune) bool { return r == ',' }) {
			out = append(out, sign+t)
		}
	}
	return strings.Join(out, ",")
}

// Options say how the tools work. The zero Options are those of a program that
// nobody watches, but for the timeout.
type Options struct {
	// Timeout ends commands that name none of their own; 0: never. In print
	// mode it is 120 s. Background jobs have none.
	Timeout time.Duration
	// TempDir holds the full output of commands, in files that only this user
	// can read; "": the system's directory for temporary files. Notices name
	// the file, so that the model can read it.
	TempDir string
	// Jobs keeps background commands; nil: there are none.
	Jobs *Jobs
	// Ask puts questions to the user, which are answered together: one answer for
	// each. nil: nobody can be asked.
	Ask func(context.Context, []Question) (answers []string, err error)
	// Memory is what the conversation knows of files; nil: it is a new one.
	State *Memory
	Files FileOptions
}

// guidelines are sentences about a tool that do not depend on others.
func guidelines(lines ...string) func(tool.Set) []string {
	return func(tool.Set) []string { return lines }
}

// Tools makes all tools on one workspace, which is a [*workspace.Local] or
// whatever else [workspace.Parse] made.
func Tools(ws workspace.Workspace, o Options) tool.Set {
	st := o.State
	if st == nil {
		st = NewMemory()
	}
	return slices.Concat(
		tool.Set{readTool(ws, st, o.Files)},
		runTools(ws, o),
		tool.Set{editTool(ws, st, o.Files), writeTool(ws, st), grepTool(ws, o.Files), findTool(ws, o.Files),
			lsTool(ws, o.Files),
			askTool(o.Ask), todoTool(st)},
	)
}

func runTools(ws runner, o Options) tool.Set {
	set := tool.Set{bashTool(ws, o)}
	if o.Jobs != nil {
		set = append(set, bashOutputTool(o.Jobs), bashKillTool(o.Jobs))
	}
	return set
}
