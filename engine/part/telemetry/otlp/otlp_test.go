package otlp

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"go.opentelemetry.io/otel/trace"
)

// TestSampler: which traces are kept, as OTEL_TRACES_SAMPLER says it.
func TestSampler(t *testing.T) {
	t.Parallel()
	outside := func(flags trace.TraceFlags) trace.SpanContext {
		return trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2},
			TraceFlags: flags, Remote: true})
	}
	none, kept, left := trace.SpanContext{}, outside(trace.FlagsSampled), outside(0)
	for x, want := range map[Sampler][3]bool{
		{}:                               {true, true, false},
		{Name: "unknown"}:                {true, true, false},
		{Name: "always_on"}:              {true, true, true},
		{Name: "always_off"}:             {},
		{Name: "parentbased_always_off"}: {false, true, false},
		{Name: "traceidratio", Arg: "0"}: {},
		{Name: "parentbased_traceidratio", Arg: "0"}: {false, true, false},
		{Name: "traceidratio", Arg: "x"}:             {true, true, true},
	} {
		for i, parent := range []trace.SpanContext{none, kept, left} {
			s := x.Begin(parent, "x", trace.SpanKindInternal)
			if s.Context.IsSampled() != want[i] || !s.Context.IsValid() || s.Context.SpanID() == parent.SpanID() ||
				parent.IsValid() && s.Context.TraceID() != parent.TraceID() {
				t.Errorf("%+v below %v: %+v", x, parent, s.Context)
			}
		}
	}
	n := 0
	for range 4000 {
		if (Sampler{Name: "traceidratio", Arg: "0.25"}).Begin(none, "x", trace.SpanKindInternal).Context.IsSampled() {
			n++
		}
	}
	if n < 700 || n > 1300 { // far more than ten standard deviations
		t.Errorf("%d of 4000 traces are kept", n)
	}
}

// TestAnswers: what a collector answers decides whether a request is sent again, and what counts as dropped.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		status   []int
		body     string
		requests int32
		rejected int
		fails    bool
	}{
		"taken":         {[]int{200}, `{}`, 1, 0, false},
		"some rejected": {[]int{200}, `{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "x"}}`, 1, 2, false},
		"not JSON":      {[]int{200}, "hello", 1, 0, false},
		"busy, then":    {[]int{503, 429, 200}, `{}`, 3, 0, false},
		"wrong":         {[]int{400}, "", 1, 3, true},
		"elsewhere":     {[]int{307}, "", 1, 3, true},
	} {
		var n atomic.Int32
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			i := n.Add(1)
			w.Header().Set("Location", "/else")
			w.WriteHeader(x.status[min(int(i), len(x.status))-1])
			w.Write([]byte(x.body))
		}))
		e := Exporter{Traces: Target{URL: s.URL}, Client: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
		spans := make([]*Span, 3)
		for i := range spans {
			spans[i] = Sampler{}.Begin(trace.SpanContext{}, "x", trace.SpanKindInternal)
		}
		rejected, err := e.Spans(context.Background(), spans)
		if rejected != x.rejected || (err != nil) != x.fails || n.Load() != x.requests {
			t.Errorf("%s: %d rejected, %v, %d requests", name, rejected, err, n.Load())
		}
		s.Close()
	}
}
