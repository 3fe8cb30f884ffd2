//go:build unix

package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/durable/batch"
)

// TestAnswerOnTerminal: what a command prints on a terminal is escaped, whoever prints it; the answer of -p is
// unchanged in a pipe, and that of a schedule or loop is escaped there too.
func TestAnswerOnTerminal(t *testing.T) {
	const answer, escaped = "a\x1b]52;c;eA==\ab\u009bc\u202ed\U000110bd", `a\x1b]52;c;eA==\x07b\u009bc\u202ed\U000110bd`
	master, tty, err := pty.Open()
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	defer tty.Close()
	lines := bufio.NewReader(master)
	for name, show := range map[string]func(w io.Writer) error{
		"answer":   func(w io.Writer) error { (&textOutput{w: w, text: answer}).End(nil); return nil },
		"schedule": func(w io.Writer) error { return showRun(w, io.Discard, doneRun(answer)) },
		"anything": func(w io.Writer) error { _, err := fmt.Fprintln(w, answer); return err },
	} {
		c := func() *cobra.Command {
			return &cobra.Command{Use: "x", RunE: func(c *cobra.Command, _ []string) error { return show(c.OutOrStdout()) }}
		}
		x := c()
		x.SetArgs(nil)
		execute(t.Context(), x, strings.NewReader(""), tty, io.Discard)
		line, err := lines.ReadString('\n')
		if got := strings.TrimSpace(line); err != nil || got != escaped {
			t.Errorf("%s on a terminal: %q, %v", name, got, err)
		}
		var pipe bytes.Buffer
		x = c()
		x.SetArgs(nil)
		execute(t.Context(), x, strings.NewReader(""), &pipe, io.Discard)
		want := answer
		if name == "schedule" {
			want = escaped
		}
		if pipe.String() != want+"\n" {
			t.Errorf("%s in a pipe: %q", name, pipe.String())
		}
	}
}

func doneRun(text string) batch.Run {
	return batch.Run{State: batch.Done, End: &batch.End{State: batch.Done, Text: text}}
}

// TestStandardOutput: front ends write to standard output through the writer that escapes. Those that draw with control
// sequences are listed here; they escape all text themselves.
func TestStandardOutput(t *testing.T) {
	draw := map[string]int{
		"doctor.go":     1, // asks for the size of the terminal
		"talk.go":       3, // the func itself, the screen and the line mode
		"session.go":    1, // session show, by the line mode
		"batch_show.go": 1, // the sessions of a run, by the line mode
		"attach.go":     1, // the sessions of the background, by the line mode
	}
	past := regexp.MustCompile(`\bos\.Stdout\b|\bsyscall\.Stdout\b|\bfmt\.Print(f|ln)?\(`)
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		code := regexp.MustCompile(`(?m)//.*$`).ReplaceAll(data, nil)
		main := strings.Count(string(code), "os.Stdin, os.Stdout, os.Stderr)") // of a program, to execute
		if n := len(past.FindAll(code, -1)); n > main {
			t.Errorf("%s writes to standard output past the writer that escapes", path)
		}
		if n := strings.Count(string(code), "drawn(c"); n != draw[strings.TrimPrefix(filepath.ToSlash(path), "../cli/")] {
			t.Errorf("%s draws at %d places: does it escape all text? This test has the list", path, n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
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
