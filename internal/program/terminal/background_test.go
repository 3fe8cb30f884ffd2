//go:build unix

package terminal

import (
	"bytes"
	"testing"
	"time"

	"github.com/creack/pty"
)

// TestBackground: the terminal's reply is read before Close returns, so that the shell does not receive it.
func TestBackground(t *testing.T) {
	for _, c := range []struct {
		answer       string
		light, known bool
	}{
		{"\x1b]11;rgb:ffff/ffff/dddd\x1b\\\x1b[?62c", true, true},
		{"\x1b]11;rgb:1e/1e/2e\x07\x1b[?1;2c", false, true},
		{"\x1b[?6c", false, false},
		{"\x1b]11;rgb:oops\x07\x1b[?6c", false, false},
	} {
		master, slave, err := pty.Open()
		if err != nil {
			t.Skipf("no pty on this system: %v", err)
		}
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			var got []byte
			buf := make([]byte, 256)
			for !bytes.HasSuffix(got, []byte(question)) {
				n, err := master.Read(buf)
				if err != nil {
					return
				}
				got = append(got, buf[:n]...)
			}
			master.Write([]byte(c.answer))
		}()
		keys := make(chan Key, 10)
		term, err := Open(slave, slave, Keys, func(k Key) { keys <- k })
		if err != nil {
			t.Fatal(err)
		}
		term.answerTimeout = time.Hour
		if err := term.AskBackground(); err != nil {
			t.Fatal(err)
		}
		if err := term.Close(); err != nil {
			t.Error(err)
		}
		<-answered
		if light, known := term.Light(); light != c.light || known != c.known {
			t.Errorf("%q: light %t, known %t", c.answer, light, known)
		}
		close(keys)
		for k := range keys {
			if k.Name != "background" {
				t.Errorf("%q: the key %v", c.answer, k)
			}
		}
		master.Close()
		slave.Close()
	}
}
