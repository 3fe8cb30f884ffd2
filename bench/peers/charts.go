package main

import (
	"fmt"
	"slices"

	"github.com/knack-agent/knack/bench"
)

// charts returns the measurements as charts.
func (r *result) charts() (out []bench.Chart) {
	if len(r.Starts) > 0 {
		of := func(file, title, unit string, value func(start) bench.Stat) {
			c := bench.Chart{File: file, Title: title, Unit: unit}
			var sizes []int
			for _, s := range r.Starts {
				if !slices.Contains(sizes, s.Skills) {
					sizes = append(sizes, s.Skills)
					c.Groups = append(c.Groups, fmt.Sprintf("%d skills", s.Skills))
				}
			}
			for _, p := range r.ready() {
				s := bench.Series{Name: p.Name, Values: make([]bench.Stat, len(sizes))}
				for _, row := range r.Starts {
					if row.Name == p.Name && row.Problem == "" {
						s.Values[slices.Index(sizes, row.Skills)] = value(row)
					}
				}
				c.Series = append(c.Series, s)
			}
			out = append(out, c)
		}

		of("start.svg", "Process start to first model request", "ms", func(s start) bench.Stat { return s.First })
		of("cpu.svg", "Processor time of one prompt", "ms", func(s start) bench.Stat { return s.CPU })
		of("memory.svg", "Peak memory of one prompt", "MiB", func(s start) bench.Stat { return s.RSS })
		of("request.svg", "First request", "KiB",
			func(s start) bench.Stat { return bench.StatOf([]float64{float64(s.Bytes) / 1024}) })
		of("descriptions.svg", "Skill descriptions that the model saw whole", "number",
			func(s start) bench.Stat { return bench.StatOf([]float64{float64(s.Whole)}) })
	}
	if len(r.Calls) > 0 {
		c := bench.Chart{File: "calls.svg", Title: "One tool call and its request", Unit: "ms",
			Groups: []string{"shell", "read"}}
		for _, p := range r.ready() {
			s := bench.Series{Name: p.Name, Values: make([]bench.Stat, 2)}
			for _, row := range r.Calls {
				if row.Name == p.Name {
					s.Values[slices.Index(c.Groups, row.Tool)] = row.PerWall
				}
			}
			c.Series = append(c.Series, s)
		}
		out = append(out, c)
	}
	if len(r.Tools) > 0 {
		c := bench.Chart{File: "tools.svg", Title: "Searches", Unit: "ms"}
		var names []string
		for _, t := range r.Tools {
			if !slices.Contains(c.Groups, t.Task) {
				c.Groups = append(c.Groups, t.Task)
			}
			if !slices.Contains(names, t.Name) {
				names = append(names, t.Name)
			}
		}
		for _, name := range names {
			s := bench.Series{Name: name, Values: make([]bench.Stat, len(c.Groups))}
			for _, t := range r.Tools {
				if t.Name == name {
					s.Values[slices.Index(c.Groups, t.Task)] = t.Time
				}
			}
			c.Series = append(c.Series, s)
		}
		out = append(out, c)
	}
	return out
}
