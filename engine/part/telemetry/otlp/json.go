package otlp

import (
	"math"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The types are the messages of OTLP in their JSON mapping: lowerCamelCase, IDs as hexadecimal digits, 64-bit integers
// as strings, enumerations as numbers.

type object = map[string]any

type keyValue struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

type span struct {
	TraceID    string     `json:"traceId"`
	SpanID     string     `json:"spanId"`
	TraceState string     `json:"traceState,omitempty"`
	Parent     string     `json:"parentSpanId,omitempty"`
	Flags      uint32     `json:"flags"`
	Name       string     `json:"name"`
	Kind       int        `json:"kind"`
	Start      string     `json:"startTimeUnixNano"`
	End        string     `json:"endTimeUnixNano"`
	Attributes []keyValue `json:"attributes,omitempty"`
	Dropped    int        `json:"droppedAttributesCount,omitempty"`
	Status     status     `json:"status"`
}

type status struct {
	Message string `json:"message,omitempty"`
	Code    int    `json:"code,omitempty"`
}

// Flags of a span: whether the parent is of another program is known, and whether it is.
const (
	flagKnown  = 0x100
	flagRemote = 0x200
)

func spanOf(s sdktrace.ReadOnlySpan) span {
	c, parent := s.SpanContext(), s.Parent()
	out := span{TraceID: c.TraceID().String(), SpanID: c.SpanID().String(), TraceState: c.TraceState().String(),
		Flags: uint32(c.TraceFlags()) | flagKnown, Name: s.Name(), Kind: int(s.SpanKind()), Start: nanos(s.StartTime()),
		End: nanos(s.EndTime()), Attributes: attributes(s.Attributes()), Dropped: s.DroppedAttributes()}
	if parent.SpanID().IsValid() {
		out.Parent = parent.SpanID().String()
	}
	if parent.IsRemote() {
		out.Flags |= flagRemote
	}
	switch s.Status().Code { // the numbers of the API are others
	case codes.Ok:
		out.Status.Code = 1
	case codes.Error:
		out.Status = status{s.Status().Description, 2}
	}
	return out
}

func nanos(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixNano(), 10)
}

func attributes(list []attribute.KeyValue) []keyValue {
	out := make([]keyValue, len(list))
	for i, kv := range list {
		out[i] = keyValue{string(kv.Key), value(kv.Value)}
	}
	return out
}

// value returns an attribute's value. Slices are of strings: there are no others.
func value(v attribute.Value) any {
	switch v.Type() {
	case attribute.BOOL:
		return object{"boolValue": v.AsBool()}
	case attribute.INT64:
		return object{"intValue": strconv.FormatInt(v.AsInt64(), 10)}
	case attribute.FLOAT64:
		return object{"doubleValue": double(v.AsFloat64())}
	case attribute.STRINGSLICE:
		list := []object{}
		for _, s := range v.AsStringSlice() {
			list = append(list, object{"stringValue": s})
		}
		return object{"arrayValue": object{"values": list}}
	}
	return object{"stringValue": v.String()}
}

// double returns what JSON has for a number.
func double(f float64) any {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return f
}

type metric struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Unit        string `json:"unit,omitempty"`
	Sum         *sum   `json:"sum,omitempty"`
	Histogram   *sum   `json:"histogram,omitempty"`
}

type sum struct {
	Points      []point `json:"dataPoints"`
	Temporality int     `json:"aggregationTemporality"` // 1: since the last, 2: since the start
	Monotonic   bool    `json:"isMonotonic,omitempty"`
}

type point struct {
	Attributes []keyValue `json:"attributes,omitempty"`
	Start      string     `json:"startTimeUnixNano"`
	Time       string     `json:"timeUnixNano"`
	Int        string     `json:"asInt,omitempty"`
	Double     any        `json:"asDouble,omitempty"`

	Count  string    `json:"count,omitempty"`
	Sum    any       `json:"sum,omitempty"`
	Counts []string  `json:"bucketCounts,omitempty"`
	Bounds []float64 `json:"explicitBounds,omitempty"`
	Min    any       `json:"min,omitempty"`
	Max    any       `json:"max,omitempty"`
}

// metricOf returns a sum or a histogram; ok is false for what the program does not make.
func metricOf(m metricdata.Metrics) (out metric, ok bool) {
	out = metric{Name: m.Name, Description: m.Description, Unit: m.Unit}
	switch d := m.Data.(type) {
	case metricdata.Sum[int64]:
		out.Sum = &sum{Temporality: temporality(d.Temporality), Monotonic: d.IsMonotonic}
		for _, p := range d.DataPoints {
			x := pointOf(p.Attributes, p.StartTime, p.Time)
			x.Int = strconv.FormatInt(p.Value, 10)
			out.Sum.Points = append(out.Sum.Points, x)
		}
		return out, len(d.DataPoints) > 0
	case metricdata.Sum[float64]:
		out.Sum = &sum{Temporality: temporality(d.Temporality), Monotonic: d.IsMonotonic}
		for _, p := range d.DataPoints {
			x := pointOf(p.Attributes, p.StartTime, p.Time)
			x.Double = double(p.Value)
			out.Sum.Points = append(out.Sum.Points, x)
		}
		return out, len(d.DataPoints) > 0
	case metricdata.Histogram[int64]:
		return histogramOf(out, d)
	case metricdata.Histogram[float64]:
		return histogramOf(out, d)
	}
	return out, false
}

func histogramOf[N int64 | float64](out metric, d metricdata.Histogram[N]) (metric, bool) {
	out.Histogram = &sum{Temporality: temporality(d.Temporality)}
	for _, p := range d.DataPoints {
		x := pointOf(p.Attributes, p.StartTime, p.Time)
		x.Count, x.Sum, x.Bounds = strconv.FormatUint(p.Count, 10), double(float64(p.Sum)), p.Bounds
		for _, n := range p.BucketCounts {
			x.Counts = append(x.Counts, strconv.FormatUint(n, 10))
		}
		if least, ok := p.Min.Value(); ok {
			x.Min = double(float64(least))
		}
		if most, ok := p.Max.Value(); ok {
			x.Max = double(float64(most))
		}
		out.Histogram.Points = append(out.Histogram.Points, x)
	}
	return out, len(d.DataPoints) > 0
}

func pointOf(set attribute.Set, start, now time.Time) point {
	return point{Attributes: attributes(set.ToSlice()), Start: nanos(start), Time: nanos(now)}
}

type record struct {
	Time       string     `json:"timeUnixNano"`
	Observed   string     `json:"observedTimeUnixNano"`
	Severity   int        `json:"severityNumber"`
	Text       string     `json:"severityText"`
	Body       object     `json:"body"`
	Attributes []keyValue `json:"attributes,omitempty"`
	TraceID    string     `json:"traceId,omitempty"`
	SpanID     string     `json:"spanId,omitempty"`
	Event      string     `json:"eventName"`
}

func recordOf(r Record) record {
	out := record{Time: nanos(r.Time), Observed: nanos(r.Time), Severity: r.Severity, Text: "INFO",
		Body: object{"stringValue": r.Name}, Attributes: attributes(r.Attrs), Event: r.Name}
	if r.Severity > 9 {
		out.Text = "WARN"
	}
	if r.Span.IsValid() {
		out.TraceID, out.SpanID = r.Span.TraceID().String(), r.Span.SpanID().String()
	}
	return out
}

// temporality returns OTLP's number, which is not that of the SDK.
func temporality(t metricdata.Temporality) int {
	if t == metricdata.DeltaTemporality {
		return 1
	}
	return 2
}
