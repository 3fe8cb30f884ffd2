package permission

import "github.com/knack-agent/knack/permission/internal/bash"

// What [ParseCommand] finds in a command line: facts, which no rule has judged.
type (
	// A Script is a command line taken apart.
	Script = bash.Script
	// A Command is one simple command.
	Command = bash.Command
	// A Word is one word of a command, with what can be known of it.
	Word = bash.Word
	// A File is a file that a command's words name.
	File = bash.File
	// A Redirect is a redirection to or from a file.
	Redirect = bash.Redirect
	// An Assign is an assignment that may change what a program does.
	Assign = bash.Assign
	// An Unclear is a piece of text with the reason why it cannot be judged.
	Unclear = bash.Unclear
)

// ParseCommand takes a bash command line apart. The error says that it is too
// long, holds characters that people cannot see, or is no bash.
//
// What the result leaves out is harmless by itself: the operators, comments,
// here-documents (their substitutions are in it), and assignments to ordinary
// shell variables.
func ParseCommand(text string) (*Script, error) { return bash.Parse(text, 0) }
