package telemetry

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

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
	tracer  trace.Tracer
	spans   *sdktrace.TracerProvider
	meters  *sdkmetric.MeterProvider
	reader  *sdkmetric.ManualReader
	meter   instruments
	out     *otlp.Exporter
	every   time.Duration
	failed  func(error) // called once
	wake    chan struct{}
	stopped chan struct{}
	stop    context.CancelFunc // of requests that are under way
	ended   chan struct{}

	mu      sync.Mutex
	ready   []sdktrace.ReadOnlySpan
	records []otlp.Record
}

// instruments are the metrics.
type instruments struct {
	tokens                                metric.Int64Histogram // nil: tokenSum is used
	tokenSum                              metric.Int64Counter
	duration, toolTime                    metric.Float64Histogram
	cost                                  metric.Float64Counter
	sessions, decisions, skills, dropping metric.Int64Counter
}

// newPipeline builds the SDK. failed is called when the collector fails for the first time.
func newPipeline(c *configuration, version string, failed func(error)) (*pipeline, error) {
	all := append(slices.Clone(c.resource), attribute.String("service.instance.id", rand.Text()))
	scope := "github.com/knack-agent/knack"
	temporality := sdkmetric.DefaultTemporalitySelector
	if c.delta {
		temporality = func(sdkmetric.InstrumentKind) metricdata.Temporality { return metricdata.DeltaTemporality }
	}
	p := &pipeline{reader: sdkmetric.NewManualReader(sdkmetric.WithTemporalitySelector(temporality)), every: c.every,
		failed: failed, wake: make(chan struct{}, 1),
		stopped: make(chan struct{}), ended: make(chan struct{})}
	p.out = &otlp.Exporter{Traces: c.traces, Metrics: c.metrics, Logs: c.logs, Resource: all, Scope: scope,
		Version: version, Stopping: p.stopped, Client: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	res := resource.NewSchemaless(all...)
	p.spans = sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithSpanProcessor(p))
	p.meters = sdkmetric.NewMeterProvider(sdkmetric.WithResource(res), sdkmetric.WithReader(p.reader))
	p.tracer = p.spans.Tracer(scope, trace.WithInstrumentationVersion(version))
	if err := p.makeInstruments(p.meters.Meter(scope), c.names); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	go func() {
		defer close(p.ended)
		p.run(ctx)
	}()
	return p, nil
}

func (p *pipeline) makeInstruments(m metric.Meter, names naming) error {
	var errs [8]error
	x := &p.meter
	if names.tokenCounter {
		x.tokenSum, errs[0] = m.Int64Counter(names.of(metricTokens), metric.WithUnit("tokens"),
			metric.WithDescription("Tokens that models used"))
	} else {
		x.tokens, errs[0] = m.Int64Histogram(names.of(metricTokens), metric.WithUnit("{token}"),
			metric.WithDescription("Tokens that a request used"), metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024,
				4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864))
	}
	bounds := metric.WithExplicitBucketBoundaries(0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48,
		40.96, 81.92)
	x.duration, errs[1] = m.Float64Histogram(names.of(metricDuration), metric.WithUnit("s"), bounds,
		metric.WithDescription("How long turns and requests to models took"))
	x.toolTime, errs[2] = m.Float64Histogram(names.of(metricToolTime), metric.WithUnit("s"), bounds,
		metric.WithDescription("How long calls of tools took, with the wait for an answer"))
	x.cost, errs[3] = m.Float64Counter(names.of(metricCost), metric.WithUnit("USD"),
		metric.WithDescription("What requests to models cost"))
	x.sessions, errs[4] = m.Int64Counter(names.of(metricSessions), metric.WithDescription("Sessions that began"))
	x.decisions, errs[5] = m.Int64Counter(names.of(metricDecisions),
		metric.WithDescription("Decisions whether a call may run"))
	x.skills, errs[6] = m.Int64Counter(names.of(metricSkills), metric.WithDescription("Skills that came into use"))
	x.dropping, errs[7] = m.Int64Counter(names.of(metricDropped),
		metric.WithDescription("Spans and log records that could not be sent"))
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// OnStart, OnEnd, ForceFlush and Shutdown make the pipeline a span processor.
func (p *pipeline) OnStart(context.Context, sdktrace.ReadWriteSpan) {}

func (p *pipeline) ForceFlush(context.Context) error { return nil }

func (p *pipeline) Shutdown(context.Context) error { return nil }

func (p *pipeline) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() || p.out.Traces.URL == "" {
		return
	}
	p.mu.Lock()
	full := len(p.ready) >= maxQueue
	if !full {
		p.ready = append(p.ready, s)
	}
	p.queued(len(p.ready))
	p.mu.Unlock()
	if full {
		p.drop("traces", 1)
	}
}

// add keeps a log record.
func (p *pipeline) add(r otlp.Record) {
	if p.out.Logs.URL == "" {
		return
	}
	p.mu.Lock()
	full := len(p.records) >= maxQueue
	if !full {
		p.records = append(p.records, r)
	}
	p.queued(len(p.records))
	p.mu.Unlock()
	if full {
		p.drop("logs", 1)
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
		p.meter.dropping.Add(context.Background(), int64(n), metric.WithAttributes(attribute.String(keySignal, signal)))
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
	var all metricdata.ResourceMetrics
	err := p.reader.Collect(ctx, &all)
	rejected := 0
	if err == nil {
		rejected, err = p.out.Values(ctx, &all)
	}
	p.sent("metrics", rejected, err)
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
