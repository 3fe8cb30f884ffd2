package permission

import "github.com/knack-agent/knack/confine/permission/internal/bash"

// The parts of a command line that [ParseCommand] returns. They do not depend on rules.
type (
	// A CommandLine is a parsed command line.
	CommandLine = bash.CommandLine
	// A SimpleCommand is one simple command.
	SimpleCommand = bash.SimpleCommand
	// A Word is one word of a command, with what is known about its value.
	Word = bash.Word
	// A File is a file that a command's words name.
	File = bash.File
	// A Redirect is a redirection to or from a file.
	Redirect = bash.Redirect
	// An Assign is an assignment that may change the behaviour of a program.
	Assign = bash.Assign
	// An Unclear is a piece of text that cannot be analysed, with the reason.
	Unclear = bash.Unclear
)

// ParseCommand parses a bash command line. It fails if the line is too long,
// contains invisible characters or is not valid bash.
//
// The result omits what is harmless by itself: operators, comments,
// here-documents (but not the substitutions in them) and assignments to ordinary
// shell variables.
func ParseCommand(text string) (*CommandLine, error) { return bash.Parse(text, 0) }

// OnlyReads reports whether every command of a bash command line only reads, as far as its words say.
func OnlyReads(text string) bool {
	line, err := ParseCommand(text)
	return err == nil && onlyReads(line)
}

func onlyReads(line *CommandLine) bool {
	for _, item := range line.Items {
		if _, ok := item.(Unclear); ok {
			return false
		}
	}
	for _, c := range line.Commands {
		if c.Effect != bash.Reads && len(c.Enters) == 0 && (c.Effect != bash.Wraps || c.Opaque != "" || len(c.Inner) == 0) {
			return false
		}
		for _, in := range c.Inner {
			if !onlyReads(in.Script) {
				return false
			}
		}
	}
	return true
}
