//go:build unix

package cli

import (
	"bufio"
	"bytes"
	"strings"
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
