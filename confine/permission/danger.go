package permission

import (
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/knack-agent/knack/internal/leaf/order"
)

// A Danger is a part of a command line whose effect may be impossible to undo, or that gives others control.
type Danger struct {
	From, To int    // byte offsets in the command line
	Why      string // what it does, as the rest of a sentence that begins with the words of the part
}

// Dangers returns the dangerous parts of a bash command line that its words show, in order. It informs the user and
// decides nothing: a command line in which it finds none, or that cannot be parsed, may still be dangerous.
func Dangers(line string) []Danger {
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(line), "")
	if err != nil {
		return nil
	}
	var all []Danger
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			if why, to := dangerousCall(n); why != "" {
				all = append(all, Danger{offset(n.Args[0].Pos()), offset(to.End()), why})
			}
		case *syntax.BinaryCmd:
			if (n.Op == syntax.Pipe || n.Op == syntax.PipeAll) && downloads(n.X) && runsInput(n.Y) {
				all = append(all, Danger{offset(n.OpPos), offset(n.Y.End()), "runs what was downloaded"})
			}
		}
		return true
	})
	order.Stable(all, func(a, b Danger) int { return a.From - b.From })
	return all
}

func offset(p syntax.Pos) int { return int(p.Offset()) }

// dangerousCall returns what is dangerous about a simple command, and the last word that makes it so.
func dangerousCall(c *syntax.CallExpr) (why string, to *syntax.Word) {
	if len(c.Args) == 0 {
		return "", nil
	}
	name, args := path.Base(c.Args[0].Lit()), c.Args[1:]
	flag := func(short, long string) *syntax.Word { // the last argument that has the flag
		var found *syntax.Word
		for _, a := range args {
			text := a.Lit()
			if text == long || short != "" && strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "--") &&
				strings.ContainsAny(text, short) {
				found = a
			}
		}
		return found
	}
	switch name {
	case "rm":
		if w := flag("rR", "--recursive"); w != nil {
			if force := flag("f", "--force"); force != nil && force.Pos().After(w.Pos()) {
				w = force
			}
			return "deletes directories with everything in them", w
		}
	case "git":
		return dangerousGit(args, flag)
	case "sudo", "doas":
		return "runs a command with all rights on this machine", c.Args[0]
	case "dd", "mkfs", "shred", "wipefs":
		return "may overwrite a whole disk", c.Args[0]
	case "sh", "bash", "zsh", "eval", "source", ".":
		for _, a := range args {
			if fetched(a) {
				return "runs what was downloaded", a
			}
		}
	}
	return "", nil
}

func dangerousGit(args []*syntax.Word, flag func(short, long string) *syntax.Word) (string, *syntax.Word) {
	for _, a := range args {
		switch a.Lit() {
		case "push":
			if w := flag("f", "--force"); w != nil {
				return "overwrites what others may have pushed", w
			}
		case "reset":
			if w := flag("", "--hard"); w != nil {
				return "discards changes that are not committed", w
			}
		case "clean":
			if w := flag("f", "--force"); w != nil {
				return "deletes files that git does not know", w
			}
		default:
			continue
		}
		return "", nil
	}
	return "", nil
}

// downloads reports whether a statement runs a program that downloads.
func downloads(n syntax.Node) bool {
	found := false
	syntax.Walk(n, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.CallExpr); ok && len(c.Args) > 0 {
			name := path.Base(c.Args[0].Lit())
			found = found || name == "curl" || name == "wget"
		}
		return !found
	})
	return found
}

// fetched reports whether a word contains a substitution, as in $(curl URL), whose output is a download.
func fetched(w *syntax.Word) bool {
	found := false
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			found = found || downloads(n)
		}
		return !found
	})
	return found
}

// runsInput reports whether a statement is an interpreter, which runs its input.
func runsInput(s *syntax.Stmt) bool {
	c, ok := s.Cmd.(*syntax.CallExpr)
	if !ok {
		return false
	}
	for _, a := range c.Args {
		switch path.Base(a.Lit()) {
		case "sudo", "doas", "env":
			continue
		case "sh", "bash", "zsh", "dash", "ksh", "fish", "python", "python3", "perl", "ruby", "node":
			return true
		}
		return false
	}
	return false
}
