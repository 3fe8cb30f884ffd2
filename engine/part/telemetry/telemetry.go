// Package telemetry is the part that tells a collector of OpenTelemetry what sessions do: spans of turns, requests and
// calls, metrics, and log records. It is off unless the user's environment (OTEL_EXPORTER_OTLP_ENDPOINT and its like)
// or a setting of the user or the administrator names a collector; a project cannot.
//
// A turn is a span invoke_agent, in it are a span chat for each request to a model, a span execute_tool for each call,
// and in that one knack.wait while the user is asked; the turn of a sub-agent is in the call that started it. The first
// span continues the trace of the variable TRACEPARENT, and commands, hooks and MCP servers are told of the call in
// which they work. What is sent has no text of the conversation, no arguments and no paths, unless telemetry.content is
// set. Nothing waits for the collector but the end of the program, for two seconds at most; what it does not take in
// time is dropped and counted.
package telemetry

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/telemetry/otlp"
	"github.com/knack-agent/knack/internal/leaf/traceparent"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/llm"
)

// Part tells a collector what sessions do.
func Part() engine.Part {
	shared := &program{open: map[string]*opened{}}
	return engine.Part{Name: "telemetry", Open: shared.session}
}

// A program has the pipelines of its sessions.
type program struct {
	mu   sync.Mutex
	open map[string]*opened // by the key of their configuration
}

type opened struct {
	*pipeline
	sessions int
}

// session opens the part for a session; it is off if nobody asks for it.
func (g *program) session(_ context.Context, c *engine.Conv) (*engine.Live, error) {
	config, problems := configure(c.Project(), c.Project().Env(), c.Project().Version())
	if config == nil && len(problems) == 0 {
		return nil, nil
	}
	if config == nil {
		return &engine.Live{Problems: problems}, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.open[config.key]
	if p == nil {
		p = &opened{pipeline: newPipeline(config, c.Project().Version(), func(err error) { c.Notice(unreachable(err)) })}
		g.open[config.key] = p
	}
	p.sessions++
	t := &telemetry{pipeline: p.pipeline, conv: c, config: config, calls: map[string]*otlp.Span{}}
	p.meter.sessions.Add(1)
	return &engine.Live{Observe: t.observe, Model: t.model, Audit: t.decided, ModeChanged: t.modeChanged,
		Close: func() error {
			g.mu.Lock()
			p.sessions--
			last := p.sessions == 0
			if last {
				delete(g.open, config.key)
			}
			g.mu.Unlock()
			if last {
				p.close()
			}
			return nil
		}}, nil
}

// unreachable tells the user that the collector does not take what is sent. The address may have a key, so only its
// host is named.
func unreachable(err error) knack.Problem {
	text := err.Error()
	var u *url.Error
	if errors.As(err, &u) {
		if at, bad := url.Parse(u.URL); bad == nil {
			text = at.Host + ": " + u.Err.Error()
		}
	}
	return knack.Problem{Code: knack.CodeSettingIgnored, Severity: knack.Warn,
		Message: "telemetry: what cannot be sent is dropped: " + text, Hint: "knack help telemetry"}
}

// telemetry is the part in one session.
type telemetry struct {
	*pipeline
	conv   *engine.Conv
	config *configuration

	mu    sync.Mutex
	calls map[string]*otlp.Span // those that are open, by the call's ID
}

// observe begins the span of a step.
func (t *telemetry) observe(ctx context.Context, s agent.Step) (context.Context, func(agent.Outcome)) {
	switch {
	case s.Call != nil:
		return t.call(ctx, s)
	case s.Asks != "":
		ctx, span := t.start(ctx, spanWait, "", trace.SpanKindInternal, t.text(keyAsks, s.Asks))
		return ctx, func(o agent.Outcome) {
			span.Set(attribute.Bool(keyDeclined, o.No))
			t.end(span, o.Err)
		}
	}
	return t.turn(ctx, s)
}

// start begins a span, and tells what works in it of its place in the trace.
func (t *telemetry) start(ctx context.Context, name, of string, kind trace.SpanKind, attrs ...attribute.KeyValue) (
	context.Context, *otlp.Span) {
	ctx = below(ctx, t.conv.Project().Env())
	name = t.config.names.of(name)
	if of != "" && !t.config.names.short {
		name += " " + of
	}
	span := t.sampler.Begin(trace.SpanContextFromContext(ctx), name, kind, attrs...)
	ctx = trace.ContextWithSpanContext(ctx, span.Context)
	return traceparent.With(ctx, placeOf(ctx)), span
}

// below returns a context in a span: its own, that of the message which it is about, or else that of the environment.
func below(ctx context.Context, env engine.Env) context.Context {
	if trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	place := traceparent.From(ctx)
	if place.Parent == "" {
		place = traceparent.Of(env.Get)
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": place.Parent,
		"tracestate": place.State})
}

// placeOf returns the place of the span of a context, for other programs.
func placeOf(ctx context.Context) traceparent.Place {
	at := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, at)
	return traceparent.Place{Parent: at["traceparent"], State: at["tracestate"]}
}

// end ends a span. Of an error only the kind is told: its text may have any text.
func (t *telemetry) end(span *otlp.Span, err error) {
	if err != nil {
		span.Set(t.text(keyError, kindOf(err)))
	}
	t.finish(span, err != nil)
}

// kindOf returns a short name for an error.
func kindOf(err error) string {
	var e *llm.Error
	var no *knack.Refusal
	switch {
	case errors.As(err, &e):
		return string(e.Kind)
	case errors.As(err, &no):
		return "refused_" + strconv.Itoa(no.Code)
	case errors.Is(err, context.Canceled):
		return "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	}
	return "_OTHER"
}

func (t *telemetry) text(key, value string) attribute.KeyValue {
	return attribute.String(t.config.names.of(key), t.config.names.value(key, value))
}

func (t *telemetry) number(key string, n int) attribute.KeyValue {
	return attribute.Int(t.config.names.of(key), n)
}

func (t *telemetry) amount(key string, x float64) attribute.KeyValue {
	return attribute.Float64(t.config.names.of(key), x)
}

func (t *telemetry) session() attribute.KeyValue { return t.text(keyConversation, t.conv.Log().ID()) }

// log adds a log record, in the span of a context.
func (t *telemetry) log(ctx context.Context, at time.Time, event string, attrs ...attribute.KeyValue) {
	severity := 9
	if event == eventFailed {
		severity = 13
	}
	t.add(otlp.Record{Time: at, Name: t.config.names.of(event), Severity: severity,
		Attrs: append(attrs, t.session()), Span: trace.SpanContextFromContext(ctx)})
}

// turn begins the span of a turn, of the session or of a sub-agent.
func (t *telemetry) turn(ctx context.Context, s agent.Step) (context.Context, func(agent.Outcome)) {
	name := leadOf(t.conv)
	attrs := []attribute.KeyValue{t.text(keyOperation, spanTurn), t.session()}
	if s.Agent != nil {
		name = s.Agent.Name
		attrs = append(attrs, t.text(keyAgentID, s.Agent.Log))
	}
	attrs = append(attrs, t.text(keyAgent, name))
	if s.Skill != "" {
		attrs = append(attrs, t.text(keySkill, s.Skill))
	}
	begun := time.Now()
	ctx, span := t.start(ctx, spanTurn, name, trace.SpanKindInternal, attrs...)
	from := max(0, s.Log.State().Began-1)
	t.prompt(ctx, span, s, from)
	return ctx, func(o agent.Outcome) {
		t.entries(ctx, s, from)
		if end := o.End; end != nil {
			span.Set(t.text(keyEnd, string(end.Reason)), t.amount(keyCost, end.Cost))
			span.Set(t.usage(end.Usage)...)
			if t.config.content {
				span.Set(t.text(keyAnswer, t.masked(end.Text)))
			}
		}
		t.meter.duration.Add(time.Since(begun).Seconds(), t.text(keyOperation, spanTurn), t.text(keyAgent, name))
		t.end(span, o.Err)
	}
}

// leadOf names the agent of a session.
func leadOf(c *engine.Conv) string {
	if name := c.Options().Agent; name != "" && name != "none" {
		return name
	}
	return "knack"
}

// prompt tells of the user's message that began a turn.
func (t *telemetry) prompt(ctx context.Context, span *otlp.Span, s agent.Step, from int) {
	if s.Agent != nil {
		return
	}
	for _, e := range s.Log.After(from) {
		if e.User == nil {
			continue
		}
		text := llm.TextOf(e.User.Parts)
		t.log(ctx, e.Time, eventPrompt, t.number(keyLength, len(text)))
		if t.config.content {
			span.Set(t.text(keyPrompt, t.masked(text)))
		}
		return
	}
}

// entries tells of what the log of a turn says beside its requests and calls.
func (t *telemetry) entries(ctx context.Context, s agent.Step, from int) {
	for _, e := range s.Log.After(from) {
		switch {
		case e.Activation != nil:
			a := e.Activation
			attrs := []attribute.KeyValue{t.text(keySkill, a.Skill), t.text(keyBy, string(a.By))}
			if k := t.conv.Catalog().Skill(a.Skill); k != nil {
				attrs = append(attrs, t.text(keyOrigin, string(k.Origin.Kind)))
			}
			t.meter.skills.Add(1, attrs...)
			t.log(ctx, e.Time, eventSkill, append(attrs, t.number(keyTokens, a.Tokens))...)
		case e.Release != nil:
			t.log(ctx, e.Time, eventReleased, t.text(keySkill, e.Release.Skill), t.text(keyReleased, e.Release.Reason),
				t.number(keyTokens, e.Release.Tokens))
		case e.Compaction != nil:
			t.log(ctx, e.Time, eventCompact, t.usage(e.Compaction.Usage)...)
		case e.Agent != nil && e.Agent.Reason != "":
			t.log(ctx, e.Time, eventAgent, t.text(keyAgent, e.Agent.Name), t.text(keyEnd, string(e.Agent.Reason)),
				t.amount(keyCost, e.Agent.Cost))
		}
	}
}

// call begins the span of a call. It also has the wait for other calls and for the user's answer.
func (t *telemetry) call(ctx context.Context, s agent.Step) (context.Context, func(agent.Outcome)) {
	name, kind := "unknown", "function" // the name of a tool that there is not is a text of the model's
	if s.Tool != nil {
		name = s.Tool.Name
	}
	if strings.HasPrefix(name, "mcp__") {
		kind = "extension"
	}
	tool := t.text(keyTool, name)
	begun := time.Now()
	ctx, span := t.start(ctx, spanTool, name, trace.SpanKindInternal, t.text(keyOperation, spanTool), t.session(), tool,
		t.text(keyToolType, kind), t.text(keyCall, s.Call.ID))
	if t.config.content {
		span.Set(t.text(keyArguments, t.masked(string(s.Call.Input))))
	}
	t.mu.Lock()
	t.calls[s.Call.ID] = span
	t.mu.Unlock()
	return ctx, func(o agent.Outcome) {
		t.mu.Lock()
		delete(t.calls, s.Call.ID)
		t.mu.Unlock()
		took := time.Since(begun)
		labels := []attribute.KeyValue{tool}
		if o.Result.IsError {
			labels = append(labels, t.text(keyError, "tool_error"))
		}
		if a := o.Result.Activation; a != nil {
			span.Set(t.text(keySkill, a.Skill.Name), t.text(keyOrigin, string(a.Skill.Origin.Kind)))
			if !t.config.names.short {
				span.Rename(t.config.names.of(spanTool) + " " + name + " " + a.Skill.Name)
			}
			if t.config.content {
				span.Set(t.text(keyDescription, t.masked(a.Skill.Description)))
			}
		}
		if t.config.content {
			span.Set(t.text(keyResult, t.masked(llm.TextOf(o.Result.Parts))))
		}
		span.Set(labels...)
		t.meter.toolTime.Add(took.Seconds(), labels...)
		t.log(ctx, time.Now(), eventTool, tool, attribute.Bool(t.config.names.of(keySuccess), !o.Result.IsError),
			t.number(keyDuration, int(took.Milliseconds())))
		t.finish(span, o.Result.IsError)
	}
}

// decided tells of a decision of the gate.
func (t *telemetry) decided(r gate.Record) {
	attrs := []attribute.KeyValue{t.text(keyTool, r.Tool), t.text(keyDecision, r.Decision.Verdict.String()),
		t.text(keySource, sourceOf(r))}
	t.mu.Lock()
	span, ok := t.calls[r.Call]
	t.mu.Unlock()
	ctx := context.Background()
	if ok {
		ctx = trace.ContextWithSpanContext(ctx, span.Context)
		span.Set(attrs[1:]...)
	}
	t.meter.decisions.Add(1, attrs...)
	if t.config.content && r.Decision.Rule != "" {
		attrs = append(attrs, t.text(keyRule, t.masked(r.Decision.Rule)))
	}
	t.log(ctx, time.Now(), eventDecision, attrs...)
}

// sourceOf says who decided.
func sourceOf(r gate.Record) string {
	switch {
	case r.Asked:
		return "user"
	case r.Hook != "":
		return "hook"
	case strings.HasPrefix(string(r.Decision.Origin), "skill:"):
		return "skill"
	case r.Decision.Origin != "":
		return string(r.Decision.Origin)
	}
	return "mode"
}

func (t *telemetry) modeChanged(_, to permission.Mode) {
	t.log(context.Background(), time.Now(), eventMode, t.text(keyMode, string(to)))
}

// usage returns the attributes for used tokens.
func (t *telemetry) usage(u llm.Usage) []attribute.KeyValue {
	return []attribute.KeyValue{t.number(keyInput, u.Input), t.number(keyOutput, u.Output),
		t.number(keyCacheRead, u.CacheRead), t.number(keyCacheWrite, u.CacheWrite)}
}

// A model is one whose requests are observed.
type model struct {
	llm.Model
	of *telemetry
}

func (t *telemetry) model(m llm.Model) llm.Model { return model{m, t} }

// Stream sends a request in a span.
func (m model) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		ctx, r := m.of.request(ctx, m.Info(), req)
		defer r.end(ctx)
		for e, err := range m.Model.Stream(ctx, req) {
			r.see(e, err)
			if !yield(e, err) {
				return
			}
		}
	}
}

// A request is one that is under way.
type request struct {
	of     *telemetry
	info   llm.Info
	span   *otlp.Span
	labels []attribute.KeyValue
	begun  time.Time
	first  time.Duration // until the first event; 0: none came
	answer *llm.Response
	err    error
}

// request begins the span of a request.
func (t *telemetry) request(ctx context.Context, info llm.Info, req *llm.Request) (context.Context, *request) {
	provider, name, ok := strings.Cut(info.ID, "/")
	if !ok { // that of the program
		name = provider
	}
	r := &request{of: t, info: info, begun: time.Now(), labels: []attribute.KeyValue{t.text(keyOperation, spanChat),
		t.text(keyProvider, providerName(provider)), t.text(keyModel, name)}}
	ctx, r.span = t.start(ctx, spanChat, name, trace.SpanKindClient, append(r.labels, t.session())...)
	if req.Effort != "" {
		r.span.Set(t.text(keyEffort, req.Effort))
	}
	return ctx, r
}

// providerName returns what the conventions call a provider.
func providerName(provider string) string {
	switch provider {
	case "google", "gemini":
		return "gcp.gemini"
	case "vertex":
		return "gcp.vertex_ai"
	case "bedrock":
		return "aws.bedrock"
	case "azure":
		return "azure.ai.openai"
	}
	return provider
}

func (r *request) see(e llm.Event, err error) {
	if r.first == 0 {
		r.first = time.Since(r.begun)
	}
	if e.Done != nil {
		r.answer = e.Done
	}
	r.err = err
}

// end ends the span of a request, and counts what it used.
func (r *request) end(ctx context.Context) {
	t, took := r.of, time.Since(r.begun)
	duration := t.number(keyDuration, int(took.Milliseconds()))
	if r.answer == nil && r.err == nil {
		r.err = context.Canceled
	}
	if r.first > 0 {
		r.span.Set(t.amount(keyFirst, r.first.Seconds()))
	}
	if a := r.answer; a != nil {
		cost := r.info.Price.Cost(a.Usage)
		r.span.Set(append(t.usage(a.Usage), t.amount(keyCost, cost), t.text(keyAnswerModel, a.Model),
			attribute.StringSlice(t.config.names.of(keyFinish), []string{string(a.Stop)}))...)
		if t.config.content {
			r.span.Set(t.text(keyAnswer, t.masked(llm.TextOf(a.Message.Parts))))
		}
		t.countTokens(a.Usage, r.labels)
		t.meter.cost.Add(cost, r.labels[1:]...)
		t.log(ctx, time.Now(), eventRequest, append(append(t.usage(a.Usage), r.labels[1:]...), t.amount(keyCost, cost),
			duration)...)
	} else {
		failed := append(r.labels[1:len(r.labels):len(r.labels)], t.text(keyError, kindOf(r.err)), duration)
		var e *llm.Error
		if errors.As(r.err, &e) && e.Status != 0 {
			failed = append(failed, t.number(keyStatus, e.Status))
		}
		t.log(ctx, time.Now(), eventFailed, failed...)
	}
	labels := r.labels
	if r.err != nil {
		labels = append(labels[:len(labels):len(labels)], t.text(keyError, kindOf(r.err)))
	}
	t.meter.duration.Add(took.Seconds(), labels...)
	t.end(r.span, r.err)
}

// countTokens counts what a request used.
func (t *telemetry) countTokens(u llm.Usage, labels []attribute.KeyValue) {
	for _, x := range []struct {
		kind string
		n    int
	}{{"input", u.Input}, {"output", u.Output}, {"cache_read", u.CacheRead}, {"cache_creation", u.CacheWrite}} {
		if x.n != 0 {
			t.meter.tokens.Add(float64(x.n), append(labels[:len(labels):len(labels)], t.text(keyTokenType, x.kind))...)
		}
	}
}
