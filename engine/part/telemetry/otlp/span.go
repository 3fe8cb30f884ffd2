package otlp

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// A Span is a step of a trace. Its exported fields must not be changed once it has ended.
type Span struct {
	Name            string
	Kind            trace.SpanKind
	Context, Parent trace.SpanContext // Parent may be invalid
	Start, End      time.Time
	Attrs           []attribute.KeyValue
	Failed          bool

	mu    sync.Mutex
	ended bool
}

// Set sets attributes; the last of several with the same key counts.
func (s *Span) Set(attrs ...attribute.KeyValue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
next:
	for _, a := range attrs {
		for i := range s.Attrs {
			if s.Attrs[i].Key == a.Key {
				s.Attrs[i] = a
				continue next
			}
		}
		s.Attrs = append(s.Attrs, a)
	}
}

// Rename changes the name.
func (s *Span) Rename(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.Name = name
	}
}

// Finish ends the span. It reports whether it had not ended before.
func (s *Span) Finish(failed bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.ended, s.End, s.Failed = true, time.Now(), s.Failed || failed
	return true
}

// A Sampler decides which traces are kept: it has the values of OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG. What
// is not known is as if it were not set: a trace is kept unless the one that it continues is not.
type Sampler struct{ Name, Arg string }

// Begin returns a span that begins now, with a place below parent, which may be invalid.
func (x Sampler) Begin(parent trace.SpanContext, name string, kind trace.SpanKind, attrs ...attribute.KeyValue) *Span {
	c := trace.SpanContextConfig{TraceID: parent.TraceID(), TraceState: parent.TraceState()}
	for !c.TraceID.IsValid() {
		binary.LittleEndian.PutUint64(c.TraceID[:8], rand.Uint64())
		binary.LittleEndian.PutUint64(c.TraceID[8:], rand.Uint64())
	}
	for !c.SpanID.IsValid() {
		binary.LittleEndian.PutUint64(c.SpanID[:], rand.Uint64())
	}
	if x.keeps(parent, c.TraceID) {
		c.TraceFlags = trace.FlagsSampled
	}
	s := &Span{Name: name, Kind: kind, Context: trace.NewSpanContext(c), Parent: parent, Start: time.Now()}
	s.Set(attrs...)
	return s
}

func (x Sampler) keeps(parent trace.SpanContext, id trace.TraceID) bool {
	below := parent.IsValid()
	switch x.Name {
	case "always_on":
		return true
	case "always_off":
		return false
	case "traceidratio":
		return x.ratio(id)
	case "parentbased_always_off":
		return below && parent.IsSampled()
	case "parentbased_traceidratio":
		if !below {
			return x.ratio(id)
		}
	}
	return !below || parent.IsSampled()
}

// ratio reports whether a trace is in the part of all that Arg names, as the specification computes it.
func (x Sampler) ratio(id trace.TraceID) bool {
	part, err := strconv.ParseFloat(x.Arg, 64)
	if err != nil || part >= 1 {
		return true
	}
	return float64(binary.BigEndian.Uint64(id[8:])>>1) < part*(1<<63)
}
