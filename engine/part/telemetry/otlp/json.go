package otlp

import (
	"math"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
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
	Status     status     `json:"status"`
}

type status struct {
	Code int `json:"code,omitempty"` // 2: it failed
}

// Flags of a span: whether the parent is of another program is known, and whether it is.
const (
	flagKnown  = 0x100
	flagRemote = 0x200
)

func spanOf(s *Span) span {
	c, parent := s.Context, s.Parent
	out := span{TraceID: c.TraceID().String(), SpanID: c.SpanID().String(), TraceState: c.TraceState().String(),
		Flags: uint32(c.TraceFlags()) | flagKnown, Name: s.Name, Kind: int(s.Kind), Start: nanos(s.Start),
		End: nanos(s.End), Attributes: attributes(s.Attrs)}
	if parent.SpanID().IsValid() {
		out.Parent = parent.SpanID().String()
	}
	if parent.IsRemote() {
		out.Flags |= flagRemote
	}
	if s.Failed {
		out.Status.Code = 2
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

func metricOf(m Metric) metric {
	all := &sum{Temporality: 2, Points: make([]point, len(m.Points))}
	if m.Delta {
		all.Temporality = 1
	}
	for i, p := range m.Points {
		x := point{Attributes: attributes(p.Attrs), Start: nanos(p.Start), Time: nanos(p.Time)}
		switch {
		case m.Histogram:
			x.Count, x.Sum, x.Bounds = strconv.FormatUint(p.Count, 10), double(p.Sum), p.Bounds
			x.Min, x.Max = double(p.Min), double(p.Max)
			for _, n := range p.Counts {
				x.Counts = append(x.Counts, strconv.FormatUint(n, 10))
			}
		case m.Integers:
			x.Int = strconv.FormatInt(int64(p.Sum), 10)
		default:
			x.Double = double(p.Sum)
		}
		all.Points[i] = x
	}
	out := metric{Name: m.Name, Description: m.Description, Unit: m.Unit}
	if m.Histogram {
		out.Histogram = all
	} else {
		all.Monotonic = true
		out.Sum = all
	}
	return out
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
