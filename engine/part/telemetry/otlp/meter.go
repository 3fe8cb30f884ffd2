package otlp

import (
	"math"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
)

// A Metric is an instrument with its values.
type Metric struct {
	Name, Unit, Description string
	Histogram               bool // not a sum, which only grows
	Integers                bool // the values of a sum are
	Delta                   bool // the values are those since the last time, not since the start
	Points                  []Point
}

// A Point is the values with the same attributes.
type Point struct {
	Attrs       []attribute.KeyValue // by key
	Start, Time time.Time
	Sum         float64

	// of a histogram
	Count    uint64
	Min, Max float64
	Bounds   []float64 // the last bucket has none
	Counts   []uint64
}

// A Meter adds up values. Its methods, and those of its instruments, may be called by several goroutines. The zero
// Meter has no instruments.
type Meter struct {
	Delta bool // Collect returns what came since the last call

	mu    sync.Mutex
	start time.Time
	all   []*Instrument
}

// An Instrument takes values.
type Instrument struct {
	of     *Meter
	metric Metric
	bounds []float64
	series map[attribute.Distinct]*Point
}

// Counter returns an instrument for values that are added up.
func (m *Meter) Counter(name, unit, description string, integers bool) *Instrument {
	return m.add(&Instrument{metric: Metric{Name: name, Unit: unit, Description: description, Integers: integers}})
}

// Histogram returns an instrument that counts values by size. bounds are the upper bounds of all buckets but the last.
func (m *Meter) Histogram(name, unit, description string, bounds ...float64) *Instrument {
	return m.add(&Instrument{bounds: bounds, metric: Metric{Name: name, Unit: unit, Description: description,
		Histogram: true}})
}

func (m *Meter) add(i *Instrument) *Instrument {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.start.IsZero() {
		m.start = time.Now()
	}
	i.of, i.series, i.metric.Delta = m, map[attribute.Distinct]*Point{}, m.Delta
	m.all = append(m.all, i)
	return i
}

// maxSeries is how many different attributes an instrument has; values with more are added up without them, as
// OpenTelemetry's SDK does it.
const maxSeries = 2000

// Add takes a value.
func (i *Instrument) Add(value float64, attrs ...attribute.KeyValue) {
	set := attribute.NewSet(attrs...)
	i.of.mu.Lock()
	defer i.of.mu.Unlock()
	p := i.series[set.Equivalent()]
	if p == nil {
		if len(i.series) >= maxSeries-1 {
			set = attribute.NewSet(attribute.Bool("otel.metric.overflow", true))
			p = i.series[set.Equivalent()]
		}
		if p == nil {
			p = &Point{Attrs: set.ToSlice(), Min: math.Inf(1), Max: math.Inf(-1)}
			if i.metric.Histogram {
				p.Bounds, p.Counts = i.bounds, make([]uint64, len(i.bounds)+1)
			}
			i.series[set.Equivalent()] = p
		}
	}
	p.Sum += value
	if i.metric.Histogram {
		p.Count++
		p.Min, p.Max = min(p.Min, value), max(p.Max, value)
		at, _ := slices.BinarySearch(i.bounds, value)
		p.Counts[at]++
	}
}

// Collect returns the metrics that have values.
func (m *Meter) Collect() (all []Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	for _, i := range m.all {
		if len(i.series) == 0 {
			continue
		}
		out := i.metric
		for _, p := range i.series {
			x := *p
			x.Counts, x.Start, x.Time = slices.Clone(p.Counts), m.start, now
			out.Points = append(out.Points, x)
		}
		if m.Delta {
			clear(i.series)
		}
		all = append(all, out)
	}
	if m.Delta {
		m.start = now
	}
	return all
}
