// Package audit is the part that records every decision on a call in a file of the administrator's choice: the managed
// setting audit.file. No other level can set it, and nothing turns it off, --no-session included.
//
// The file has a JSON object a line ([Entry]), which contains the hash of the line before it: [All] finds what was
// changed, removed or added between others. What is cut off at the end, or written anew from the beginning, it cannot
// find: for that, send the last hash elsewhere. The file belongs to the user who runs the program, so it is evidence
// about what agents did, not against that user.
//
// A run does not wait for the file. What cannot be written in time is counted, and the count is written later. With the
// managed setting audit.required it is the other way round: a call runs only once its decision is written, and a run
// ends if that is not possible within five seconds.
package audit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/secrets"
	"github.com/knack-agent/knack/run/gate"
)

const (
	maxQueue = 4096            // entries that wait to be written; more are lost
	patience = 5 * time.Second // how long a required entry may take
	endTime  = 2 * time.Second // how long the end of a session waits
	maxText  = 8 << 10         // of a subject, in bytes
	maxParts = 100             // subjects and scripts of a call
)

// Part records decisions in the file of the setting audit.file.
func Part() engine.Part {
	shared := &writers{open: map[string]*writer{}}
	return engine.Part{Name: "audit", Open: func(_ context.Context, c *engine.Conv) (*engine.Live, error) {
		r, err := shared.recorder(c.Project(), c.Log().ID(), func() string { return string(c.Mode()) }, c.Notice)
		if r == nil || err != nil {
			return nil, err
		}
		return &engine.Live{Require: r.decided, Close: func() error { shared.release(r.w); return nil }}, nil
	}}
}

// Outside records decisions outside of a session, such as those of knack tool run, until end is called; require is nil
// where there is no audit file.
func Outside(p *engine.Project, notice func(knack.Problem)) (require func(gate.Record) error, end func(), err error) {
	shared := &writers{open: map[string]*writer{}}
	r, err := shared.recorder(p, "", func() string { return "" }, notice)
	if r == nil || err != nil {
		return nil, func() {}, err
	}
	return r.decided, func() { shared.release(r.w) }, nil
}

// recorder returns the recorder of a session; nil: its administrator wants none.
func (all *writers) recorder(p *engine.Project, session string, mode func() string, notice func(knack.Problem)) (
	*recorder, error) {
	path, required, err := Settings(p)
	if err != nil || path == "" {
		return nil, err
	}
	w := all.get(path)
	r := &recorder{w: w, required: required, mode: mode,
		by: Entry{User: engine.SystemUser(), Dir: p.Dir(), Session: session},
		failed: func(err error) {
			notice(knack.Problem{Code: knack.CodeUnreadable, Severity: knack.Warn, Path: path,
				Message: "the audit file cannot be written: " + err.Error(), Hint: "tell your administrator"})
		}}
	if err := r.add(Entry{Type: Begin}); err != nil {
		all.release(w)
		return nil, err
	}
	return r, nil
}

// Settings returns the audit file of a project's administrator, and whether runs need it; "": there is none.
func Settings(p *engine.Project) (path string, required bool, err error) {
	if len(p.Where("audit.file")) == 0 && len(p.Where("audit.required")) == 0 {
		return "", false, nil
	}
	var set struct {
		Audit struct {
			File     string `json:"file"`
			Required bool   `json:"required"`
		} `json:"audit"`
	}
	if err := p.ReadSettings(&set); err != nil {
		return "", false, err
	}
	path, err = engine.AuditFile(set.Audit.File, p.Env().Home())
	if path == "" && err == nil && set.Audit.Required {
		err = &engine.Error{Err: errors.New("audit.required is set in the managed settings, and audit.file is not"),
			Hint: "tell your administrator"}
	}
	return path, set.Audit.Required, err
}

// A recorder records the decisions of one session.
type recorder struct {
	w        *writer
	required bool
	by       Entry // what all of its entries have
	mode     func() string
	failed   func(error)
}

// add writes an entry: later, or now where that is required.
func (r *recorder) add(e Entry) error {
	e.Time, e.User, e.Dir, e.Session = time.Now().UTC(), r.by.User, r.by.Dir, r.by.Session
	err := r.w.add(e, r.required, r.failed)
	if err == nil {
		return nil
	}
	return &engine.Error{Err: fmt.Errorf("the audit file %s cannot be written, and the administrator requires it: %w",
		r.w.file.path, err), Hint: "tell your administrator"}
}

// decided records a decision.
func (r *recorder) decided(d gate.Record) error {
	e := EntryOf(d)
	e.Mode = r.mode()
	return r.add(e)
}

// EntryOf describes a decision.
func EntryOf(d gate.Record) Entry {
	by := d.Decision
	e := Entry{Type: Decision, Call: d.Call, Tool: clean(d.Tool), Agent: d.Agent, Verdict: by.Verdict.String(),
		Rule:   clean(by.Rule),
		Origin: string(by.Origin), Reason: clean(by.Reason), Asked: d.Asked, Hook: d.Hook}
	if d.Asked {
		e.Answer = d.Answer.Choice.String()
	}
	for _, s := range by.Subjects[:min(len(by.Subjects), maxParts)] {
		e.Subjects = append(e.Subjects, Subject{Kind: string(s.Kind), Text: clean(s.Text), Verdict: s.Verdict.String(),
			Rule: clean(s.Rule)})
	}
	if p := d.Permit; p != nil && p.Input != nil {
		sum := sha256.Sum256(p.Input)
		e.Input = hex.EncodeToString(sum[:])
		for _, s := range p.Scripts[:min(len(p.Scripts), maxParts)] {
			if e.Scripts == nil {
				e.Scripts = map[string]string{}
			}
			sum := sha256.Sum256(s.Data)
			e.Scripts[clean(s.Path)] = hex.EncodeToString(sum[:])
		}
	}
	return e
}

// clean returns a text without what looks like a key, and not too long.
func clean(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + " …"
	}
	for range 20 {
		key := secrets.Key(text)
		if key == "" {
			return text
		}
		text = strings.ReplaceAll(text, key, "[secret]")
	}
	return "[secret]"
}

// writers are those of a program, by path.
type writers struct {
	mu   sync.Mutex
	open map[string]*writer
}

func (all *writers) get(path string) *writer {
	all.mu.Lock()
	defer all.mu.Unlock()
	w := all.open[path]
	if w == nil {
		w = newWriter(path)
		all.open[path] = w
	}
	w.users++
	return w
}

func (all *writers) release(w *writer) {
	all.mu.Lock()
	w.users--
	last := w.users == 0
	if last {
		delete(all.open, w.file.path)
	}
	all.mu.Unlock()
	if last {
		w.close()
	}
}

// A writer writes entries to a file, while runs go on.
type writer struct {
	file  file
	users int // sessions; guarded by writers.mu
	stop  context.CancelFunc
	ended chan struct{}
	wake  chan struct{}

	mu     sync.Mutex
	queue  []waiting
	lost   int
	closed bool
}

// waiting is an entry that is not written yet.
type waiting struct {
	Entry
	done   chan error // gets how it went; nil: nobody waits
	failed func(error)
}

func newWriter(path string) *writer {
	ctx, stop := context.WithCancel(context.Background())
	w := &writer{file: file{path: path, max: maxSize}, stop: stop, ended: make(chan struct{}),
		wake: make(chan struct{}, 1)}
	go func() {
		defer close(w.ended)
		w.run(ctx)
	}()
	return w
}

// add queues an entry, and waits for it if it is required.
func (w *writer) add(e Entry, required bool, failed func(error)) error {
	x := waiting{Entry: e, failed: failed}
	if required {
		x.done = make(chan error, 1)
	}
	w.mu.Lock()
	full := len(w.queue) >= maxQueue
	if full {
		w.lost++
	} else {
		w.queue = append(w.queue, x)
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	switch {
	case !required:
		return nil
	case full:
		return errors.New("too many entries wait")
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-x.done:
		return err
	case <-timer.C:
		return errors.New("it takes too long")
	}
}

// run writes what is queued until the writer is closed.
func (w *writer) run(ctx context.Context) {
	for {
		w.mu.Lock()
		batch, lost, closed := w.queue, w.lost, w.closed
		w.queue, w.lost = nil, 0
		w.mu.Unlock()
		if len(batch) > 0 {
			w.write(ctx, batch, lost)
			continue
		}
		if closed {
			return
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			return
		}
	}
}

// write writes entries, after one that says how many were lost before them.
func (w *writer) write(ctx context.Context, batch []waiting, lost int) {
	var all []Entry
	if lost > 0 {
		first := batch[0].Entry
		all = append(all, Entry{Time: first.Time, Type: Lost, User: first.User, Dir: first.Dir, Session: first.Session,
			Lost: lost})
	}
	for _, x := range batch {
		all = append(all, x.Entry)
	}
	within, cancel := context.WithTimeout(ctx, patience)
	err := w.file.append(within, all)
	cancel()
	for _, x := range batch {
		if x.done != nil {
			x.done <- err
		}
	}
	if err != nil {
		w.mu.Lock()
		w.lost += lost + len(batch)
		w.mu.Unlock()
		batch[0].failed(err)
	}
}

// close writes what is left.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	defer time.AfterFunc(endTime, w.stop).Stop()
	<-w.ended
	w.stop()
}
