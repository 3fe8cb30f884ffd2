package telemetry

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/knack-agent/knack/engine/part/telemetry/otlp"
)

const (
	maxQueue  = 2048            // spans, and log records, that wait; more are dropped
	batchSize = 512             // so many are sent at once, without waiting
	delay     = 5 * time.Second // how long less than that waits
	// flushTime is how long the end of a program waits for the collector.
	flushTime = 2 * time.Second
)

// A pipeline keeps what has happened until the collector has it. Nothing waits for it but close.
type pipeline struct {
	sampler otlp.Sampler
	meters  otlp.Meter
	meter   instruments
	out     *otlp.Exporter
	every   time.Duration
	failed  func(error) // of the goroutine that sends; nil: it was called
	wake    chan struct{}
	stopped chan struct{}
	stop    context.CancelFunc // of requests that are under way
	ended   chan struct{}

	mu      sync.Mutex
	ready   []*otlp.Span
	records []otlp.Record
}

// instruments are the metrics.
type instruments struct {
	tokens, duration, toolTime, cost, sessions, decisions, skills, dropping *otlp.Instrument
}

// newPipeline returns a pipeline that sends from now on. failed is called when the collector fails for the first time.
func newPipeline(c *configuration, version string, failed func(error)) *pipeline {
	p := &pipeline{sampler: c.sampler, every: c.every, failed: failed, wake: make(chan struct{}, 1),
		stopped: make(chan struct{}), ended: make(chan struct{})}
	p.meters.Delta = c.delta
	p.out = &otlp.Exporter{Traces: c.traces, Metrics: c.metrics, Logs: c.logs,
		Resource: append(slices.Clone(c.resource), attribute.String("service.instance.id", rand.Text()),
			attribute.String(keyVersion, conventions)),
		Scope: "github.com/knack-agent/knack", Version: version, Stopping: p.stopped, Client: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	p.makeInstruments(c.names)
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() {
		defer close(p.ended)
		p.run(ctx)
	}()
	return p
}

func (p *pipeline) makeInstruments(names naming) {
	m, x := &p.meters, &p.meter
	if names.tokenCounter {
		x.tokens = m.Counter(names.of(metricTokens), "tokens", "Tokens that models used", true)
	} else {
		x.tokens = m.Histogram(names.of(metricTokens), "{token}", "Tokens that a request used", 1, 4, 16, 64, 256, 1024, 4096,
			16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
	}
	seconds := []float64{0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92}
	x.duration = m.Histogram(names.of(metricDuration), "s", "How long turns and requests to models took", seconds...)
	x.toolTime = m.Histogram(names.of(metricToolTime), "s", "How long calls of tools took, with the wait for an answer",
		seconds...)
	x.cost = m.Counter(names.of(metricCost), "USD", "What requests to models cost", false)
	x.sessions = m.Counter(names.of(metricSessions), "", "Sessions that began", true)
	x.decisions = m.Counter(names.of(metricDecisions), "", "Decisions whether a call may run", true)
	x.skills = m.Counter(names.of(metricSkills), "", "Skills that came into use", true)
	x.dropping = m.Counter(names.of(metricDropped), "", "Spans and log records that could not be sent", true)
}

// finish ends a span and keeps it.
func (p *pipeline) finish(s *otlp.Span, failed bool) {
	if !s.Finish(failed) || !s.Context.IsSampled() || p.out.Traces.URL == "" {
		return
	}
	keep(p, &p.ready, s, "traces")
}

// add keeps a log record.
func (p *pipeline) add(r otlp.Record) {
	if p.out.Logs.URL == "" {
		return
	}
	keep(p, &p.records, r, "logs")
}

// keep adds to a queue of the pipeline, or counts what does not fit as dropped.
func keep[T any](p *pipeline, queue *[]T, x T, signal string) {
	p.mu.Lock()
	full := len(*queue) >= maxQueue
	if !full {
		*queue = append(*queue, x)
	}
	p.queued(len(*queue))
	p.mu.Unlock()
	if full {
		p.drop(signal, 1)
	}
}

// queued wakes the sender if a whole batch waits.
func (p *pipeline) queued(n int) {
	if n >= batchSize {
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

func (p *pipeline) drop(signal string, n int) {
	if n > 0 {
		p.meter.dropping.Add(float64(n), attribute.String(keySignal, signal))
	}
}

// run sends what is queued until the pipeline is stopped, and then what is left.
func (p *pipeline) run(ctx context.Context) {
	tick := time.NewTicker(delay)
	defer tick.Stop()
	lastMetrics := time.Now()
	for {
		stopped := false
		select {
		case <-tick.C:
		case <-p.wake:
		case <-p.stopped:
			stopped = true
		}
		p.send(ctx)
		if stopped || time.Since(lastMetrics) >= p.every {
			lastMetrics = time.Now()
			p.sendMetrics(ctx)
		}
		if stopped {
			return
		}
	}
}

// send sends the spans and log records that are queued.
func (p *pipeline) send(ctx context.Context) {
	for ctx.Err() == nil {
		p.mu.Lock()
		n, m := min(len(p.ready), batchSize), min(len(p.records), batchSize)
		spans, records := slices.Clone(p.ready[:n]), slices.Clone(p.records[:m])
		p.ready, p.records = slices.Delete(p.ready, 0, n), slices.Delete(p.records, 0, m)
		p.mu.Unlock()
		if n == 0 && m == 0 {
			return
		}
		if n > 0 {
			rejected, err := p.out.Spans(ctx, spans)
			p.sent("traces", rejected, err)
		}
		if m > 0 {
			rejected, err := p.out.Records(ctx, records)
			p.sent("logs", rejected, err)
		}
	}
}

func (p *pipeline) sendMetrics(ctx context.Context) {
	if p.out.Metrics.URL == "" || ctx.Err() != nil {
		return
	}
	if all := p.meters.Collect(); len(all) > 0 {
		rejected, err := p.out.Values(ctx, all)
		p.sent("metrics", rejected, err)
	}
}

// sent counts what the collector did not take.
func (p *pipeline) sent(signal string, rejected int, err error) {
	p.drop(signal, rejected)
	if err != nil && p.failed != nil {
		p.failed(err)
		p.failed = nil
	}
}

// close sends what is left, for at most flushTime.
func (p *pipeline) close() {
	close(p.stopped)
	defer time.AfterFunc(flushTime, p.stop).Stop()
	<-p.ended
	p.stop()
}
