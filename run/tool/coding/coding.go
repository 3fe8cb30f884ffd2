// Package coding provides the tools read, bash, bash_output, bash_kill, edit, write, grep,
// find, ls, ask and todo.
//
// Start with [Tools], which returns them for one workspace. [tool.Select]
// then chooses the tools of a run, from [All] or [ReadOnly].
//
// Most programs start with package engine.
package coding

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/tool"
)

// Sets of tools, in the syntax of [tool.Select].
const (
	ReadOnly = "read,grep,find,ls"
	All      = "*"
)

// Names returns the names of all tools of this package, in the syntax of [tool.Select].
func Names() string { return strings.Join(Tools(nil, Options{Jobs: new(Jobs)}).Names(), ",") }

// Choice converts what a user types to the syntax of [tool.Select]: the names of sets
// (none, all, readOnly, coding and default) are replaced by the names of their tools.
// base is the set that default refers to.
func Choice(spec, base string) string {
	sets := map[string]string{"none": "", "all": All, "readonly": ReadOnly, "read-only": ReadOnly, "coding": Names(),
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
			out = append(out, "-*") // only this set
			sign = "+"
		}
		for _, t := range strings.FieldsFunc(set, func(r rune) bool { return r == ',' }) {
			out = append(out, sign+t)
		}
	}
	return strings.Join(out, ",")
}

// Options configure the tools. The zero Options suit a program without a user, except
// that commands have no timeout.
type Options struct {
	// Timeout ends commands that do not set their own; 0 means never. In print mode it
	// is 120 s. Background jobs have no timeout.
	Timeout time.Duration
	// TempDir is the directory for the full output of commands, in files that only this
	// user can read; "" means the system's directory for temporary files. Notices
	// contain the path of the file, so that the model can read it. Of an output of more
	// than 64 MB the first and the last half of that are kept. If TempDir is set, files of
	// this kind that are older than 30 days are removed, and the oldest of more than 1 GB.
	TempDir string
	away    bool // commands run where files of TempDir are not
	// Jobs manages background commands; nil disables them.
	Jobs *Jobs
	// Ask asks the user questions, which are answered together: it returns one answer
	// for each. nil means that there is no user to ask.
	Ask func(context.Context, []Question) (answers []string, err error)
	// Connected is called when a command has reached a host through the sandbox's proxy, see [workspace.Command]; nil:
	// it is not. Several goroutines may call it, also after the call that started the command.
	Connected func(host string)
	// Mask returns the values that no output of a command may contain, see [workspace.Command]; nil: there are none.
	Mask func() []string
	// State is what the conversation knows about files; nil means a new Memory.
	State *Memory
	Files FileOptions
}

// guidelines returns a func for Tool.Guidelines with sentences that do not depend on the
// other tools.
func guidelines(lines ...string) func(tool.Set) []string {
	return func(tool.Set) []string { return lines }
}

// Tools returns all tools for one workspace, which is a [*workspace.Local] or another
// result of [workspace.Parse].
func Tools(ws workspace.Workspace, o Options) tool.Set {
	st := o.State
	if st == nil {
		st = NewMemory()
	}
	if o.away = away(ws); o.away {
		o.Files.kept = o.TempDir
	}
	return slices.Concat(
		tool.Set{readTool(ws, st, o.Files)},
		runTools(ws, o),
		tool.Set{editTool(ws, st, o.Files), writeTool(ws, st), grepTool(ws, o.Files), findTool(ws, o.Files),
			lsTool(ws, o.Files),
			askTool(o.Ask), todoTool(st)},
	)
}

// away reports whether the commands of a workspace run where the files of this machine are not.
func away(ws any) bool {
	_, here := ws.(osFS)
	return !here
}

func runTools(ws runner, o Options) tool.Set {
	set := tool.Set{bashTool(ws, o)}
	if o.Jobs != nil {
		set = append(set, bashOutputTool(o.Jobs), bashKillTool(o.Jobs))
	}
	return set
}
