// Package terminal reads keys from a terminal and writes an append-only screen
// to it: lines that stay in the scrollback, and a small live area below them.
//
// [Open] puts the terminal into raw mode, [Decoder] turns its bytes into keys,
// and [Screen] writes. The alternate screen is never used, and nothing is asked
// of the terminal: an answer that comes late would end up in the user's shell.
package terminal

import (
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// A Terminal is a terminal in raw mode.
type Terminal struct {
	in    *os.File
	out   io.Writer
	state *term.State
}

const (
	enter = "\x1b[?2004h\x1b[>1u" // bracketed paste, kitty's keys if there
	leave = "\x1b[<u\x1b[?2004l\x1b[?25h"
)

// Open puts a terminal into raw mode. [Terminal.Close] must be called before
// the program ends.
func Open(in *os.File, out io.Writer) (*Terminal, error) {
	t := &Terminal{in: in, out: out}
	return t, t.Resume()
}

// Resume is the reverse of [Terminal.Close].
func (t *Terminal) Resume() error {
	state, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return err
	}
	t.state = state
	_, err = io.WriteString(t.out, enter)
	return err
}

// Close puts the terminal back into the mode it had.
func (t *Terminal) Close() error {
	if t.state == nil {
		return nil
	}
	io.WriteString(t.out, leave)
	err := term.Restore(int(t.in.Fd()), t.state)
	t.state = nil
	return err
}

// Size returns the size in cells; 80 by 24 if it is not known.
func (t *Terminal) Size() (width, height int) {
	if w, h, err := term.GetSize(int(t.in.Fd())); err == nil && w > 0 && h > 0 {
		return w, h
	}
	return 80, 24
}

// escapeDelay is how long an escape byte waits for the rest of a sequence
// before it is the Esc key.
const escapeDelay = 50 * time.Millisecond

// Keys reads the input until it ends and calls got for each key, from the
// calling goroutine.
func (t *Terminal) Keys(got func(Key)) error { return readKeys(t.in, got) }

func readKeys(in io.Reader, got func(Key)) error {
	type read struct {
		data []byte
		err  error
	}
	reads, taken := make(chan read), make(chan struct{})
	go func() {
		defer close(reads)
		buf := make([]byte, 4096)
		for {
			n, err := in.Read(buf)
			reads <- read{buf[:n], err}
			<-taken // buf may be used again
			if err != nil {
				return
			}
		}
	}()
	var d Decoder
	emit := func(keys []Key) {
		for _, k := range keys {
			got(k)
		}
	}
	for {
		var flush <-chan time.Time
		if d.Pending() {
			flush = time.After(escapeDelay)
		}
		select {
		case r := <-reads:
			keys := d.Decode(r.data)
			taken <- struct{}{}
			emit(keys)
			if r.err != nil {
				emit(d.Flush())
				if r.err == io.EOF {
					return nil
				}
				return r.err
			}
		case <-flush:
			emit(d.Flush())
		}
	}
}
