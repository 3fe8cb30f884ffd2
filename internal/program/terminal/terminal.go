// Package terminal reads keys from a terminal and writes an append-only screen to it: lines
// that stay in the scrollback, and a small live area below them.
//
// [Open] puts the terminal into raw mode and reads keys, which [Decoder] decodes; [Screen]
// writes, and uses the alternate screen only for long texts ([Screen.Full]). The program asks
// the terminal only for the colour of its background. [Terminal.Close] waits for the reply, because a late reply would
// end up in the user's shell.
package terminal

import (
	"bytes"
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
	onKey func(Key)
	state *term.State
	input cancelreader.CancelReader
	ended chan struct{} // closed when the reading goroutine ends
	modes string

	answerTimeout time.Duration // how long Close waits for a reply
	queryTime     time.Time     // when AskBackground was called
	answered      chan struct{} // closed when the terminal has replied
	background    atomic.Int32  // 0: unknown, 1: dark, 2: light
}

// Modes for [Open].
const (
	Pastes = "\x1b[?2004h"         // report a paste as one key
	Keys   = "\x1b[?2004h\x1b[>1u" // as Pastes, and use the kitty keyboard protocol if the terminal supports it
)

// resetModes maps each mode to the sequence that turns it off.
var resetModes = map[string]string{
	Pastes: "\x1b[?2004l",
	Keys:   "\x1b[<u\x1b[?2004l\x1b[?25h",
}

// question asks for the background's colour and then for the terminal's attributes. Every
// terminal replies to the second query, so after that reply no other will come.
const question = "\x1b]11;?\x1b\\\x1b[c"

// answerTime is how long Close waits for an outstanding reply.
const answerTime = 500 * time.Millisecond

// AskBackground asks the terminal for the colour of its background. The reply arrives as a Key
// named "background".
func (t *Terminal) AskBackground() error {
	t.queryTime, t.answered = time.Now(), make(chan struct{})
	_, err := io.WriteString(t.out, question)
	return err
}

// Light reports whether the background is light, and whether that is known.
func (t *Terminal) Light() (light, known bool) {
	b := t.background.Load()
	return b == 2, b != 0
}

// key records replies of the terminal and passes on the keys.
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
	t.onKey(k)
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

// Open puts a terminal into raw mode and starts to read keys. It calls onKey for each key, from
// another goroutine. modes is Pastes or Keys. [Terminal.Close] must be called before the
// program ends.
func Open(in *os.File, out io.Writer, modes string, got func(Key)) (*Terminal, error) {
	t := &Terminal{in: in, out: out, modes: modes, onKey: got, answerTimeout: answerTime}
	return t, t.Resume()
}

// Resume undoes [Terminal.Close].
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
	in := newInput(t.in, t.input)
	ahead := in.more(0)
	go func() {
		defer close(ended)
		readKeys(in, ahead, t.key)
	}()
	t.ended = ended
	_, err = io.WriteString(t.out, t.modes)
	return err
}

// Close stops reading and restores the terminal's previous mode, so that another program can
// use it.
func (t *Terminal) Close() error {
	if t.state == nil {
		return nil
	}
	if t.answered != nil && time.Since(t.queryTime) < 4*t.answerTimeout { // after that, no reply is expected any more
		select {
		case <-t.answered:
		case <-t.ended: // the input has ended, so no reply can come
		case <-time.After(t.answerTimeout):
		}
	}
	if t.input.Cancel() {
		<-t.ended
	}
	t.input.Close()
	_, err := io.WriteString(t.out, resetModes[t.modes])
	err = errors.Join(err, term.Restore(int(t.in.Fd()), t.state))
	t.state = nil
	return err
}

// Ended returns a channel that is closed when the input ends, for example because the terminal
// was closed.
func (t *Terminal) Ended() <-chan struct{} { return t.ended }

// Size returns the size in cells, or 80 by 24 if it is unknown.
func (t *Terminal) Size() (width, height int) {
	if w, h, err := term.GetSize(int(t.in.Fd())); err == nil && w > 0 && h > 0 {
		return w, h
	}
	return 80, 24
}

// escapeDelay is how long a lone escape byte waits for the rest of a sequence before it counts
// as the Esc key.
const escapeDelay = 50 * time.Millisecond

// An input is a terminal's input for [readKeys].
type input interface {
	io.Reader
	// more reports whether there is something to read, after waiting for it no longer than d. It must
	// not miss what the system has received, however late the program itself runs.
	more(d time.Duration) bool
}

// readKeys reads the input until it ends and calls onKey for each key. ahead reports that something was typed before
// the terminal was in raw mode: until then the system keeps Ctrl-D as a zero byte.
func readKeys(in input, ahead bool, onKey func(Key)) error {
	var d Decoder
	emit := func(keys []Key) {
		for _, k := range keys {
			onKey(k)
		}
	}
	buf := make([]byte, 4096)
	for ; ; ahead = false {
		n, err := in.Read(buf)
		if ahead {
			copy(buf, bytes.ReplaceAll(buf[:n], []byte{0}, []byte{4}))
		}
		emit(burst(d.Decode(buf[:n])))
		if err != nil || d.Pending() && !in.more(escapeDelay) {
			emit(d.Flush())
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}
