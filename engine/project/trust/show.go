package trust

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/plain"
)

// writeCommands shows the inline commands of an item in full.
func writeCommands(w io.Writer, commands []string) {
	if len(commands) > 0 {
		fmt.Fprintf(w, "    runs %s when it is called:\n", plain.Count(len(commands), "command"))
	}
	for _, c := range commands {
		for line := range strings.Lines(c) {
			fmt.Fprintf(w, "        %s\n", plain.Line(strings.TrimSuffix(line, "\n")))
		}
	}
}

// Write shows, for people, what a project would load, new and changed items first, and the rules that
// were kept for it.
func (p *Project) Write(w io.Writer, items []Item, rules []string) {
	if len(items) == 0 {
		fmt.Fprintln(w, "It provides nothing that needs approval.")
	}
	approved := 0
	for _, it := range items {
		if it.State == Approved {
			approved++
			continue
		}
		fmt.Fprintf(w, "%s %s %s", it.State, it.Kind, plain.Line(it.Path))
		if it.Files > 1 {
			fmt.Fprintf(w, " (%d files)", it.Files)
		}
		if it.Target != "" {
			fmt.Fprintf(w, " -> %s", plain.Line(it.Target))
		}
		fmt.Fprintln(w)
		if it.Refused != "" {
			fmt.Fprintf(w, "    cannot be approved: %s\n", plain.Line(it.Refused))
		}
		if it.Replaces != "" {
			fmt.Fprintf(w, "    replaces the bundled skill %s\n", plain.Line(it.Replaces))
		}
		if it.Programs && it.Refused == "" {
			fmt.Fprintf(w, "    network of its programs: %s\n", plain.Line(cmp.Or(it.Network,
				"none, unless you choose otherwise")))
			if len(it.Wants) > 0 {
				fmt.Fprintf(w, "    they ask to write in: %s (none, unless you choose otherwise)\n",
					plain.Line(strings.Join(it.Wants, ", ")))
			}
		}
		for _, line := range it.Loads {
			fmt.Fprintf(w, "    %s\n", plain.Line(line))
		}
		writeCommands(w, it.Commands)
		for line := range strings.Lines(p.Diff(it)) {
			fmt.Fprintf(w, "    %s\n", plain.Line(strings.TrimSuffix(line, "\n")))
		}
		fmt.Fprintln(w)
	}
	if approved > 0 {
		fmt.Fprintf(w, "trusted and unchanged: %d\n", approved)
		for _, it := range items {
			if it.State == Approved {
				fmt.Fprintf(w, "    %s %s", it.Kind, plain.Line(it.Path))
				if it.Programs {
					fmt.Fprintf(w, " (network of its programs: %s)", plain.Line(cmp.Or(it.Network, "none")))
				}
				if len(it.Write) > 0 {
					fmt.Fprintf(w, " (they may write in: %s)", plain.Line(strings.Join(it.Write, ", ")))
				}
				fmt.Fprintln(w)
			}
		}
	}
	if len(rules) > 0 {
		fmt.Fprintln(w, "\nalways allowed here:")
		for _, r := range rules {
			fmt.Fprintf(w, "    %s\n", plain.Line(r))
		}
	}
}
