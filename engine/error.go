package engine

import "fmt"

// An Error is a failure that the user can do something about: what failed and
// why, what to type next, and how the program should exit.
type Error struct {
	Err  error    // what failed, and why
	Hint string   // what to type next; "": nothing
	Exit ExitCode // 0: ExitFailed
}

func (e *Error) Error() string { return e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// An ExitCode is a class of failure, as the exit code of a program.
type ExitCode int

const (
	ExitFailed      ExitCode = 1
	ExitUsage       ExitCode = 2 // wrong words on the command line or in a prompt
	ExitRefused     ExitCode = 3 // by permission or trust
	ExitInterrupted ExitCode = 130
	ExitTerminated  ExitCode = 143
)

// Usagef is an Error about what the user typed.
func Usagef(hint, format string, args ...any) error {
	return &Error{Err: fmt.Errorf(format, args...), Hint: hint, Exit: ExitUsage}
}
