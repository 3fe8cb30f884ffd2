package telemetry

import (
	"context"
	"encoding/json"
	"runtime"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/sources"
)

// userSettings are the settings of the user and the administrator, without a project.
type userSettings struct{ *config.Config }

func (s userSettings) ReadSettings(into any) error {
	data, err := json.Marshal(s.Settings)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

// Batch begins a span for a batch, and returns variables for its runs, so that their turns are in it; nil: nothing is
// sent. end ends the span, and waits for the collector for two seconds at most. name is sent with telemetry.content
// only.
func Batch(ctx context.Context, env engine.Env, version, name string) (environ []string, end func()) {
	set, err := config.Load(config.Options{Managed: sources.ManagedDirs(runtime.GOOS), ConfigHome: env.ConfigDir()})
	if err != nil { // the batch has read them, and said so
		return nil, func() {}
	}
	c, _ := configure(userSettings{set}, env, version)
	if c == nil {
		return nil, func() {}
	}
	c.metrics.URL = ""                           // it has none
	p := newPipeline(c, version, func(error) {}) // the runs say it
	span := p.sampler.Begin(trace.SpanContextFromContext(below(ctx, env)), c.names.of(spanBatch), trace.SpanKindInternal,
		attribute.String(keyOperation, "invoke_workflow"))
	if c.content {
		span.Set(attribute.String(keyBatch, name))
	}
	return placeOf(trace.ContextWithSpanContext(ctx, span.Context)).Env(), func() {
		p.finish(span, false)
		p.close()
	}
}
