package engine

import (
	"fmt"
	"strings"
)

// An Error is a failure that the user can fix: what failed and why, what to type next, and the exit
// code of the program.
type Error struct {
	Err  error    // what failed, and why
	Hint string   // what to type next; may be ""
	Exit ExitCode // 0: ExitFailed
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// An ExitCode is the program's exit code for a class of failures.
type ExitCode int

const (
	ExitFailed      ExitCode = 1
	ExitUsage       ExitCode = 2   // invalid command line or prompt
	ExitRefused     ExitCode = 3   // refused by permissions or trust
	ExitHungUp      ExitCode = 129 // the terminal was closed
	ExitInterrupted ExitCode = 130
	ExitTerminated  ExitCode = 143
)

// Usagef returns an Error about invalid input by the user.
func Usagef(hint, format string, args ...any) error {
	return &Error{Err: fmt.Errorf(format, args...), Hint: hint, Exit: ExitUsage}
}

// PromptHint rewrites a hint for the command line to what users type at the prompt of a session.
func PromptHint(hint string) string {
	return strings.NewReplacer("knack --model provider/name", "/model provider/name, or /model to choose",
		"knack --model ", "/model ", "knack login ", "/login ", "knack skill why ", "/why ",
		"knack doctor", "/doctor", "knack -c -p 'continue'", "continue",
		// What /trust shows and asks; the others have no command.
		"knack trust --mcp-", "knack trust --mcp-", "knack trust --revoke", "knack trust --revoke",
		"knack trust --links", "knack trust --links", "knack trust /", "knack trust /",
		"knack trust --show", "/trust", "knack trust, or --trust for this run", "/trust", "knack trust", "/trust",
	).Replace(hint)
}
