// Package terminal reads keys from a terminal and writes an append-only screen
// to it: lines that stay in the scrollback, and a small live area below them.
//
// [Open] puts the terminal into raw mode and reads keys, which [Decoder] decodes,
// and [Screen] writes. The alternate screen is never used. Only the colour of the
// background is asked of the terminal, and [Terminal.Close] waits for the answer:
// one that comes late would end up in the user's shell.
package terminal

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
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
	ended chan struct{} // closed when the goroutine that reads ends
	modes string

	patience   time.Duration // how long Close waits for an answer
	asked      time.Time     // when the background was asked for
	answered   chan struct{} // closed when the terminal has answered
	background atomic.Int32  // 0: not known, 1: dark, 2: light
}

// What a terminal is asked to send.
const (
	Pastes = "\x1b[?2004h"         // pastes as one key
	Keys   = "\x1b[?2004h\x1b[>1u" // keys in kitty's protocol as well, where it is known
)

// leaves is what takes modes back.
var leaves = map[string]string{
	Pastes: "\x1b[?2004l",
	Keys:   "\x1b[<u\x1b[?2004l\x1b[?25h",
}

// question asks for the background's colour and then for the attributes, which
// every terminal answers: after that, no other answer comes.
const question = "\x1b]11;?\x1b\\\x1b[c"

// answerTime is how long Close waits for an answer that has not come yet.
const answerTime = 500 * time.Millisecond

// AskBackground asks the terminal for the colour of its background. The answer
// comes as a Key "background".
func (t *Terminal) AskBackground() error {
	t.asked, t.answered = time.Now(), make(chan struct{})
	_, err := io.WriteString(t.out, question)
	return err
}

// Light reports whether the background is light, and whether that is known.
func (t *Terminal) Light() (light, known bool) {
	b := t.background.Load()
	return b == 2, b != 0
}

// key reads the replies of the terminal and passes on the keys.
func (t *Terminal) key(k Key) {
	switch k.Name {
	case "attributes":
		if t.answered != nil {
			select {
			case <-t.answered:
			default:
				close(t.answered)
			}
		}
		return
	case "background":
		light, ok := lightColour(k.Text)
		if !ok {
			return
		}
		t.background.Store(map[bool]int32{false: 1, true: 2}[light])
	}
	t.got(k)
}

// lightColour reports whether a colour such as rgb:ffff/ffff/dddd is light.
func lightColour(s string) (light, ok bool) {
	rgb, ok := strings.CutPrefix(s, "rgb:")
	parts := strings.Split(rgb, "/")
	if !ok || len(parts) != 3 {
		return false, false
	}
	sum := 0.0
	for i, weight := range []float64{0.299, 0.587, 0.114} {
		n, err := strconv.ParseUint(parts[i], 16, 16)
		if err != nil {
			return false, false
		}
		sum += weight * float64(n) / float64(uint64(1)<<(4*len(parts[i]))-1)
	}
	return sum > 0.5, true
}

// Open puts a terminal into raw mode and reads keys: got is called for each,
// from another goroutine. modes is Pastes or Keys. [Terminal.Close] must be
// called before the program ends.
func Open(in *os.File, out io.Writer, modes string, got func(Key)) (*Terminal, error) {
	t := &Terminal{in: in, out: out, modes: modes, got: got, patience: answerTime}
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
	ended := make(chan struct{})
	go func(in io.Reader) {
		defer close(ended)
		readKeys(in, t.key)
	}(t.input)
	t.ended = ended
	_, err = io.WriteString(t.out, t.modes)
	return err
}

// Close stops reading and puts the terminal back into the mode it had, so that
// another program can use it.
func (t *Terminal) Close() error {
	if t.state == nil {
		return nil
	}
	if t.answered != nil && time.Since(t.asked) < 4*t.patience { // later, no answer is to be expected
		select {
		case <-t.answered:
		case <-t.ended: // nobody answers any more
		case <-time.After(t.patience):
		}
	}
	if t.input.Cancel() {
		<-t.ended
	}
	t.input.Close()
	_, err := io.WriteString(t.out, leaves[t.modes])
	err = errors.Join(err, term.Restore(int(t.in.Fd()), t.state))
	t.state = nil
	return err
}

// Ended returns what is closed when the input ends, as when the terminal goes
// away.
func (t *Terminal) Ended() <-chan struct{} { return t.ended }

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
