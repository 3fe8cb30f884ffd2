//go:build unix

package cli

import (
	"bufio"
	"bytes"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
)

// TestAnswerOnTerminal: on a terminal the answer of -p is escaped; in a pipe it is unchanged.
func TestAnswerOnTerminal(t *testing.T) {
	const answer = "a\x1b[31mb\u009bc\u202ed"
	master, tty, err := pty.Open()
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	defer tty.Close()
	(&textOutput{w: tty, text: answer}).End(nil)
	line, err := bufio.NewReader(master).ReadString('\n')
	if got := strings.TrimSpace(line); err != nil || got != `a\x1b[31mb\u009bc\u202ed` {
		t.Errorf("on a terminal: %q, %v", got, err)
	}
	var pipe bytes.Buffer
	(&textOutput{w: &pipe, text: answer}).End(nil)
	if pipe.String() != answer+"\n" {
		t.Errorf("in a pipe: %q", pipe.String())
	}
}

// failingWriter fails with an error of the operating system.
type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) {
	return 0, &fs.PathError{Op: "write", Path: "/dev/stdout", Err: w.err}
}

// TestUnwritten: a result that could not be written is an error, except if nobody reads it.
func TestUnwritten(t *testing.T) {
	for _, line := range []string{"version", "help", "skill --help", "tool list", "tool list --json"} {
		args := strings.Fields(line)
		var stderr bytes.Buffer
		const want = "knack: error: the result could not be written: write /dev/stdout: no space left on device\n" +
			"knack: hint: df -h\n"
		code := run(t.Context(), args, strings.NewReader(""), failingWriter{syscall.ENOSPC}, &stderr)
		if code != 1 || stderr.String() != want {
			t.Errorf("%v: exit code %d, %q", args, code, stderr.String())
		}
		stderr.Reset()
		run(t.Context(), args, strings.NewReader(""), failingWriter{syscall.EPIPE}, &stderr)
		if strings.Contains(stderr.String(), "could not be written") {
			t.Errorf("%v, to a closed pipe: %q", args, stderr.String())
		}
	}
}
