package agent

import (
	"fmt"
	"html"
	"runtime"
	"strings"
	"time"

	"github.com/knack-agent/knack/run/tool"
)

// A Prompt holds the parts of the system prompt. Their order is fixed, so that equal input gives
// equal bytes, which keeps the provider's cache valid.
type Prompt struct {
	Role     string     // who the model is; "": left out
	Help     string     // where to find help on the program; "": left out
	Custom   string     // replaces Role, Help, the tools and the guidelines
	Tools    tool.Set   // the active ones
	Append   []string   // further texts of the user
	Context  []Document // context files, outermost first
	Index    string     // the listing of skills, in index mode
	Date     time.Time  // only the day is used; zero: left out
	Dir      string
	MoreDirs []string // that tools may use like Dir
}

// A Document is a file that is included in full.
type Document struct {
	Path string
	Text string
}

// element returns the document as the model sees it.
func (d Document) element() string {
	return fmt.Sprintf("<instructions path=\"%s\">\n%s\n</instructions>", html.EscapeString(d.Path),
		strings.TrimSpace(d.Text))
}

// String returns the text of the prompt.
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
		section("# Instructions of the user and the project\n\nFollow them; where two disagree, the later one counts.")
		for _, d := range p.Context {
			section(d.element())
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
		if t.Unlisted != nil { // the prompt stays as it is, while the model may see another tool
			continue
		}
		line, _, _ := strings.Cut(strings.TrimSpace(t.Description), "\n")
		line, _, _ = strings.Cut(line, ". ") // only the first sentence: the request contains the full description
		fmt.Fprintf(&b, "- %s: %s\n", t.Name, strings.TrimSuffix(line, "."))
	}
	return b.String()
}

// guidelines returns the general guidelines and those of the active tools.
func (p Prompt) guidelines() string {
	lines := []string{"Report what you did and its result, plainly and briefly; name files by their paths."}
	for _, t := range p.Tools {
		if t.Guidelines != nil {
			lines = append(lines, t.Guidelines(p.Tools)...)
		}
	}
	if len(p.Tools) > 0 {
		lines = append(lines, "If a call is refused, do not work around the refusal: say what you would need.")
	}
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
	for _, dir := range p.MoreDirs {
		fmt.Fprintf(&b, "\nAdditional directory: %s", dir)
	}
	fmt.Fprintf(&b, "\nPlatform: %s", runtime.GOOS)
	return b.String()
}
