// Package terminal reads keys from a terminal and writes an append-only screen
// to it: lines that stay in the scrollback, and a small live area below them.
//
// [Open] puts the terminal into raw mode and reads keys, which [Decoder] decodes,
// and [Screen] writes. The alternate screen is never used, and nothing is asked
// of the terminal: an answer that comes late would end up in the user's shell.
package terminal

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/muesli/cancelreader"
	"golang.org/x/term"
)

// A Terminal is a terminal in raw mode.
type Terminal struct {
	in    *os.File
	out   io.Writer
	got   func(Key)
	state *term.State
	input cancelreader.CancelReader
	ended chan error // of the goroutine that reads; nil: none reads
}

const (
	enter = "\x1b[?2004h\x1b[>1u" // bracketed paste, kitty's keys if there
	leave = "\x1b[<u\x1b[?2004l\x1b[?25h"
)

// Open puts a terminal into raw mode and reads keys: got is called for each,
// from another goroutine. [Terminal.Close] must be called before the program
// ends.
func Open(in *os.File, out io.Writer, got func(Key)) (*Terminal, error) {
	t := &Terminal{in: in, out: out, got: got}
	return t, t.Resume()
}

// Resume is the reverse of [Terminal.Close].
func (t *Terminal) Resume() error {
	state, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return err
	}
	if t.input, err = cancelreader.NewReader(t.in); err != nil {
		return errors.Join(err, term.Restore(int(t.in.Fd()), state))
	}
	t.state = state
	ended := make(chan error, 1)
	go func(in io.Reader) { ended <- readKeys(in, t.got) }(t.input)
	t.ended = ended
	_, err = io.WriteString(t.out, enter)
	return err
}

// Close stops reading and puts the terminal back into the mode it had, so that
// another program can use it.
func (t *Terminal) Close() error {
	if t.state == nil {
		return nil
	}
	if t.input.Cancel() {
		<-t.ended
	}
	t.input.Close()
	_, err := io.WriteString(t.out, leave)
	err = errors.Join(err, term.Restore(int(t.in.Fd()), t.state))
	t.state = nil
	return err
}

// Ended returns what is closed when the input ends, as when the terminal goes
// away.
func (t *Terminal) Ended() <-chan error { return t.ended }

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

// readKeys reads the input until it ends and calls got for each key.
func readKeys(in io.Reader, got func(Key)) error {
	type read struct {
		data []byte
		err  error
	}
	reads, taken := make(chan read), make(chan struct{})
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := in.Read(buf)
			reads <- read{buf[:n], err}
			if err != nil {
				return
			}
			<-taken // buf may be used again
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
			emit(keys)
			if r.err != nil {
				emit(d.Flush())
				if r.err == io.EOF {
					return nil
				}
				return r.err
			}
			taken <- struct{}{}
		case <-flush:
			emit(d.Flush())
		}
	}
}
