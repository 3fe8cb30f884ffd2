package agent

import (
	"fmt"
	"html"
	"runtime"
	"strings"
	"time"

	"github.com/knack-agent/knack/tool"
)

// A Prompt is what the system prompt is made of: sections in a fixed order, so
// that equal input gives equal bytes.
type Prompt struct {
	Role    string     // who the model is; "": it is not said
	Help    string     // where help on the program is; "": it is not said
	Custom  string     // replaces role, tools, guidelines and help
	Tools   tool.Set   // the active ones
	Append  []string   // more text of the person's
	Context []Document // context files, outermost first
	Index   string     // the skills, in index mode
	Date    time.Time  // by day; zero: left out
	Dir     string
}

// A Document is a file that the model is given whole.
type Document struct {
	Path string
	Text string
}

// String assembles the prompt, spec agent §3.
func (p Prompt) String() string {
	var b strings.Builder
	section := func(s string) {
		if s = strings.TrimSpace(s); s == "" {
			return
		}
		if b.Len() > 0 {
			b.WriteString("\n\n")
		}
		b.WriteString(s)
	}
	if p.Custom != "" {
		section(p.Custom)
	} else {
		section(p.Role)
		section(p.tools())
		section(p.guidelines())
		section(p.Help)
	}
	for _, s := range p.Append {
		section(s)
	}
	if len(p.Context) > 0 {
		section("# Instructions of this person and project\n\nFollow them; where two disagree, the later one holds.")
		for _, d := range p.Context {
			section(fmt.Sprintf("<instructions path=\"%s\">\n%s\n</instructions>", html.EscapeString(d.Path), strings.TrimSpace(d.Text)))
		}
	}
	section(p.Index)
	section(p.environment())
	return b.String() + "\n"
}

func (p Prompt) tools() string {
	if len(p.Tools) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("# Tools\n\n")
	for _, t := range p.Tools {
		line, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
		line, _, _ = strings.Cut(line, ". ") // the description itself comes with the tool
		fmt.Fprintf(&b, "- %s: %s\n", t.Name, strings.TrimSuffix(line, "."))
	}
	return b.String()
}

// guidelines are only those that the active tools need.
func (p Prompt) guidelines() string {
	has := func(name string) bool { _, ok := p.Tools.Find(name); return ok }
	lines := []string{"Say what you did and what came of it, plainly and briefly; name files by their paths."}
	add := func(when bool, line string) {
		if when {
			lines = append(lines, line)
		}
	}
	add(has("bash") && !has("grep"), "Search and list files with bash (grep, find, ls).")
	add(has("grep") && has("bash"), "Search with grep and find rather than through bash: they honour ignore files and bound their output.")
	add(has("read"), "Read a file before you change it; read with read, not with cat.")
	add(has("edit"), "Change files with edit; use write for new files and for those you replace whole.")
	add(has("bash"), "A command that may not end by itself (a server, a watcher) is started in the background.")
	add(has("ask"), "Ask the user only what you cannot find out, and only when the answer changes what you do.")
	add(len(p.Tools) > 0, "Where a call is refused, do not look for a way around the refusal: say what you would need.")
	return "# Guidelines\n\n- " + strings.Join(lines, "\n- ")
}

func (p Prompt) environment() string {
	var b strings.Builder
	b.WriteString("# Environment\n")
	if !p.Date.IsZero() {
		fmt.Fprintf(&b, "\nDate: %s", p.Date.Format(time.DateOnly))
	}
	if p.Dir != "" {
		fmt.Fprintf(&b, "\nWorking directory: %s", p.Dir)
	}
	fmt.Fprintf(&b, "\nPlatform: %s", runtime.GOOS)
	return b.String()
}
