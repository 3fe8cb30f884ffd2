package session

import (
	"bytes"
	"encoding/json"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	fastjson "github.com/segmentio/encoding/json"

	"github.com/knack-agent/knack/llm"
)

// A record is an Entry as a Log keeps it. An Entry has a field for each type, which is more than most results need.
// The zero record is an entry that could not be read.
type record struct {
	parent  int32
	nanos   int32
	seconds int64 // since 1970, as time.Time.Unix
	body    any   // what the field that the type names points to, or the Type if this version does not know it
}

func (e *Entry) record() record {
	return record{int32(e.Parent), int32(e.Time.Nanosecond()), e.Time.Unix(), e.body()}
}

// body is what the field that Type names points to, the Type itself if this version does not know it, and nil if the
// field is missing.
func (e *Entry) body() any {
	switch e.Type {
	case TypeUser:
		return field(e.User)
	case TypeAnswer:
		return field(e.Answer)
	case TypeStarted:
		return field(e.Started)
	case TypeResult:
		return field(e.Result)
	case TypeDecision:
		return field(e.Decision)
	case TypeActivation:
		return field(e.Activation)
	case TypeNote:
		return field(e.Note)
	case TypeTurnEnd:
		return field(e.TurnEnd)
	case TypeRelease:
		return field(e.Release)
	case TypeSetting:
		return field(e.Setting)
	case TypeListing:
		return field(e.Listing)
	case TypeCompaction:
		return field(e.Compaction)
	case TypeAgent:
		return field(e.Agent)
	case TypeMove:
		return field(e.Move)
	}
	return e.Type
}

func field[T any](p *T) any {
	if p == nil {
		return nil
	}
	return p
}

// entry is the record as the entry of an ID.
func (r *record) entry(id int) Entry {
	if r.body == nil {
		return Entry{}
	}
	e := Entry{ID: id, Parent: int(r.parent), Time: time.Unix(r.seconds, int64(r.nanos)).UTC()}
	switch body := r.body.(type) {
	case *User:
		e.Type, e.User = TypeUser, body
	case *Answer:
		e.Type, e.Answer = TypeAnswer, body
	case *Started:
		e.Type, e.Started = TypeStarted, body
	case *Result:
		e.Type, e.Result = TypeResult, body
	case *Decision:
		e.Type, e.Decision = TypeDecision, body
	case *Activation:
		e.Type, e.Activation = TypeActivation, body
	case *Note:
		e.Type, e.Note = TypeNote, body
	case *TurnEnd:
		e.Type, e.TurnEnd = TypeTurnEnd, body
	case *Release:
		e.Type, e.Release = TypeRelease, body
	case *Setting:
		e.Type, e.Setting = TypeSetting, body
	case *Listing:
		e.Type, e.Listing = TypeListing, body
	case *Compaction:
		e.Type, e.Compaction = TypeCompaction, body
	case *Agent:
		e.Type, e.Agent = TypeAgent, body
	case *Move:
		e.Type, e.Move = TypeMove, body
	case Type:
		e.Type = body
	}
	return e
}

// decode reads lines as entries, several at the same time: it is most of what
// opening a session takes.
func decode(lines [][]byte) ([]Entry, []error) {
	const batch = 64
	entries, errs := make([]Entry, len(lines)), make([]error, len(lines))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(lines)/batch+1) {
		wg.Go(func() {
			pack := packer{names: map[string]string{}}
			defer pack.pack()
			for {
				to := int(next.Add(batch))
				for i := to - batch; i < min(to, len(lines)); i++ {
					errs[i] = entries[i].read(lines[i])
					pack.add(&entries[i])
				}
				if to >= len(lines) {
					return
				}
			}
		})
	}
	wg.Wait()
	return entries, errs
}

// maxBrackets bounds how deep the fast decoder can get, which has no limit: without one
// a damaged line overflows the stack.
const maxBrackets = 1_000_000

// read decodes a line. The fast decoder takes a third of the time of encoding/json, which explains what is wrong with a
// line and replaces what is no UTF-8.
func (e *Entry) read(line []byte) error {
	if bytes.Count(line, []byte{'['})+bytes.Count(line, []byte{'{'}) <= maxBrackets && utf8.Valid(line) &&
		fastjson.Unmarshal(line, e) == nil {
		return nil
	}
	*e = Entry{}
	return json.Unmarshal(line, e)
}

// packed is how much text is put into one string: allocated alone, each text takes some 6% more than it needs.
const packed = 256 << 10

// A packer makes entries that were read take no more memory than they need.
type packer struct {
	names map[string]string // strings that many entries have in common
	texts []*string         // to put into one string
	size  int               // of texts
}

func (p *packer) add(e *Entry) {
	switch {
	case e.User != nil:
		p.parts(&e.User.Parts)
	case e.Answer != nil:
		share(p.names, &e.Answer.Model)
		share(p.names, &e.Answer.Stop)
		share(p.names, &e.Answer.Message.Role)
		p.parts(&e.Answer.Message.Parts)
	case e.Started != nil:
		share(p.names, &e.Started.Name)
	case e.Result != nil:
		share(p.names, &e.Result.Name)
		p.parts(&e.Result.Parts)
	}
	if p.size >= packed {
		p.pack()
	}
}

// parts replaces a slice of the decoder's, which has room for ten.
func (p *packer) parts(parts *[]llm.Part) {
	*parts = slices.Clone(*parts)
	for i := range *parts {
		part := &(*parts)[i]
		if part.Call != nil {
			share(p.names, &part.Call.Name)
		}
		if n := len(part.Text); n > 0 && n < packed/8 {
			p.texts, p.size = append(p.texts, &part.Text), p.size+n
		}
	}
}

// pack puts the texts into one string.
func (p *packer) pack() {
	var all strings.Builder
	all.Grow(p.size)
	for _, text := range p.texts {
		all.WriteString(*text)
	}
	rest := all.String()
	for _, text := range p.texts {
		*text, rest = rest[:len(*text)], rest[len(*text):]
	}
	p.texts, p.size = p.texts[:0], 0
}

func share[T ~string](names map[string]string, s *T) {
	if have, ok := names[string(*s)]; ok {
		*s = T(have)
	} else if len(names) < 1000 {
		names[string(*s)] = string(*s)
	}
}
