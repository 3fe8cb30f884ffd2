package session

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/knack-agent/knack/llm"
)

// A record is the compact form in which a Log stores an Entry, whose many fields would take more
// memory than most entries need. The zero record is an entry that could not be read.
type record struct {
	parent  int32
	nanos   int32
	seconds int64 // since 1970, as in time.Time.Unix
	body    any   // the pointer in the field for the type, or the Type if this version does not know it
}

func (e *Entry) record() record {
	return record{int32(e.Parent), int32(e.Time.Nanosecond()), e.Time.Unix(), e.body()}
}

// body returns the pointer in the field for Type, or nil if it is missing. For a Type that this
// version does not know, it returns the Type.
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

// entry returns the record as the entry with the given ID.
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

// decode decodes lines as entries, in several goroutines, because this takes most of the time of
// opening a session.
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
					entries[i], errs[i] = ParseEntry(lines[i])
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

// packed is the size of the strings into which texts are combined. Allocated separately, texts take
// about 6% more memory.
const packed = 256 << 10

// A packer reduces the memory used by decoded entries.
type packer struct {
	names map[string]string // strings that many entries share
	texts []*string         // to be combined into one string
	size  int               // the total size of texts
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

// parts replaces the decoder's slice, which has a capacity of ten, with one of the right size.
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

// pack combines the collected texts into one string.
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
