//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/plain"
)

// A rebase that stopped has a list of what git does when it goes on, and a line of it may run any program. In the
// sandbox that is what `git rebase -x 'go test'` is for; outside it would run whatever a command wrote there. So such
// lines are comments while no command runs, unless they were in the list before any command ran.

// stepsOfRebase is the list, in the directory that has the work tree's HEAD.
const stepsOfRebase = "/rebase-merge/git-rebase-todo"

// maxSteps limits the bytes of a list.
const maxSteps = 16 << 20

// heldStep begins a line that is held back.
const heldStep = "# knack: not outside the sandbox: "

// blank are the characters that git passes over.
const blank = " \t\r\n"

// stepToRun returns what a line runs.
func stepToRun(line string) (program string, ok bool) {
	line = strings.Trim(line, blank)
	end := strings.IndexAny(line, blank)
	if end < 0 {
		return "", false
	}
	word := line[:end]
	return strings.TrimLeft(line[end:], blank), word == "exec" || word == "x"
}

// armSteps returns a list with the lines that were held back as git knows them.
func armSteps(text string) string {
	if !strings.Contains(text, heldStep) {
		return text
	}
	var all strings.Builder
	for line := range strings.Lines(text) {
		all.WriteString(strings.TrimPrefix(line, heldStep))
	}
	return all.String()
}

// heldSteps returns a list in which the lines that run programs are comments, but for some programs, and the others.
func heldSteps(text string, own []string) (list string, programs []string) {
	var all strings.Builder
	for line := range strings.Lines(text) {
		if program, ok := stepToRun(line); ok && !slices.Contains(own, program) {
			programs = append(programs, program)
			all.WriteString(heldStep)
		}
		all.WriteString(line)
	}
	return all.String(), programs
}

// holdSteps holds back what a command left in the list of a rebase.
func (l *gitLeft) holdSteps(n *protectedFiles, dir string) []string {
	path := dir + stepsOfRebase
	root := n.rootOf(path)
	text, ok := readBelow(root, path, maxSteps)
	if !ok {
		delete(l.told, path)
		if _, err := os.Lstat(path); err != nil {
			return nil
		}
		return []string{l.aside(n, path, "the list of a rebase is not a file that can be read", "")}
	}
	list, programs := heldSteps(text, l.steps[path])
	if len(programs) == 0 {
		return nil
	}
	if err := replaceBelow(root, path, list); err != nil {
		return []string{fmt.Sprintf("%s: git would run programs outside the sandbox when you go on with this rebase (%s), "+
			"and the list could not be changed: %v", path, plain.List(programs, 4), err)}
	}
	told := strings.Join(programs, "\n")
	if l.told[path] == told {
		return nil
	}
	l.told[path] = told
	return []string{fmt.Sprintf("%s: the rebase that the command left has steps that run programs (%s). While no command "+
		"runs they are comments, so that your own git does not run them when you go on; a command here that goes on runs "+
		"them in the sandbox", path, plain.List(slices.Compact(programs), 4))}
}
