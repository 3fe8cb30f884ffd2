package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/knack-agent/knack/bench"
)

// A row is what the programs did with one plugin.
type row struct {
	id string
	of []*outcome // as the programs
}

// compared are the columns of the comparison.
var compared = []string{"named", "agents named", "listed", "agents listed", "skill", "command", "agent",
	"hooks of a turn", "text of a hook", "server"}

// cell returns name → why not, "": done, for a column.
func (o *outcome) cell(column string) map[string]string {
	var names []string
	switch column {
	case "named":
		names = o.names["skill or command"]
	case "agents named":
		names = o.names["agent"]
	case "listed":
		names = o.listed["skill or command"]
	case "agents listed":
		names = o.listed["agent"]
	default:
		return o.used[column]
	}
	cell := map[string]string{}
	for _, name := range names {
		cell[name] = ""
	}
	return cell
}

// report writes a table plugin × part, and what differs.
func (d *driver) report(w io.Writer) error {
	t := bench.Table{Title: "Plugins: both, +k only Knack, +c only Claude Code, -n neither",
		Head: append([]string{""}, compared...)}
	sum := map[string]*[4]int{}
	for _, column := range compared {
		sum[column] = &[4]int{}
	}
	var differences []string
	for _, r := range d.rows {
		cells := []any{r.id}
		for _, column := range compared {
			n := r.compare(column)
			for i := range n {
				sum[column][i] += n[i]
			}
			cells = append(cells, shown(n))
		}
		t.Add(cells...)
		differences = append(differences, r.differences(d.programs)...)
	}
	cells := []any{fmt.Sprintf("%d plugins", len(d.rows))}
	for _, column := range compared {
		cells = append(cells, shown(*sum[column]))
	}
	t.Add(cells...)
	if err := t.Write(w); err != nil {
		return err
	}
	for _, line := range differences {
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}

// compare counts names of a column: done by both, only the first, only the second, neither.
func (r row) compare(column string) (n [4]int) {
	a, b := r.of[0].cell(column), r.of[1].cell(column)
	for name := range names(a, b) {
		n[which(a, b, name)]++
	}
	return n
}

func names(a, b map[string]string) map[string]bool {
	all := map[string]bool{}
	for _, m := range []map[string]string{a, b} {
		for name := range m {
			all[name] = true
		}
	}
	return all
}

func which(a, b map[string]string, name string) int {
	whyA, inA := a[name]
	whyB, inB := b[name]
	switch doneA, doneB := inA && whyA == "", inB && whyB == ""; {
	case doneA && doneB:
		return 0
	case doneA:
		return 1
	case doneB:
		return 2
	}
	return 3
}

func shown(n [4]int) string {
	if n == [4]int{} {
		return ""
	}
	s := fmt.Sprint(n[0])
	for i, mark := range []string{" +k", " +c", " -n"} {
		if n[i+1] > 0 {
			s += mark + fmt.Sprint(n[i+1])
		}
	}
	return s
}

// differences returns a line for each thing that not both did.
func (r row) differences(programs []*program) (out []string) {
	for i, o := range r.of {
		if o.refused != "" {
			out = append(out, fmt.Sprintf("%s: %s does not install it: %s", r.id, programs[i].name,
				strings.TrimSpace(o.refused)))
		}
	}
	for _, column := range compared {
		a, b := r.of[0].cell(column), r.of[1].cell(column)
		for _, name := range slices.Sorted(maps.Keys(names(a, b))) {
			who := [...]string{"both", "only " + programs[0].name, "only " + programs[1].name, "neither"}[which(a, b, name)]
			if who != "both" {
				out = append(out, fmt.Sprintf("%s: %s %s: %s; %s / %s", r.id, column, name, who, a[name], b[name]))
			}
		}
	}
	return out
}
