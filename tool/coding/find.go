package coding

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/knack-agent/knack/internal/search"
	"github.com/knack-agent/knack/tool"
)

//go:embed find.md
var findText string

type findInput struct {
	Pattern string `json:"pattern" jsonschema:"glob, such as *.go or src/**/*_test.{go,ts}"`
	Path    string `json:"path,omitempty" jsonschema:"directory to search; the working directory if left out"`
	Limit   *int   `json:"limit,omitempty" jsonschema:"paths shown at most, 1000 if left out"`
}

// ListDetails describe what find or ls listed.
type ListDetails struct {
	Path       string `json:"path"`    // absolute
	Entries    int    `json:"entries"` // shown
	More       bool   `json:"more,omitempty"`
	Secrets    int    `json:"secrets,omitempty"`    // paths left out
	Unreadable int    `json:"unreadable,omitempty"` // paths left out
	Cut        *cut   `json:"truncation,omitempty"`
}

const findLimit = 1000

func findTool(ws treeFS, o FileOptions) tool.Tool {
	t := tool.New("find", strings.TrimSpace(findText), func(ctx context.Context, in findInput, call tool.Input) (tool.Result, error) {
		limit, err := checkLimit(in.Limit, findLimit)
		if err != nil {
			return tool.Result{}, err
		}
		tr, err := openTree(ctx, ws, orDot(in.Path), call)
		if err != nil {
			return tool.Result{}, err
		}
		defer tr.Close()
		if tr.dir == nil {
			return tool.Result{}, told("Not a directory: " + tr.abs)
		}
		g, err := newGlob(in.Pattern, tr.real)
		if err != nil {
			return tool.Result{}, err
		}
		visitor := func() func(*search.Entry) []string {
			return func(e *search.Entry) []string {
				if !g.match(e) {
					return nil
				}
				if e.Type.IsDir() {
					return []string{e.Path() + "/"}
				}
				return []string{e.Path()}
			}
		}
		l := listing{limit: limit, bytes: o.listLimits().bytes, details: ListDetails{Path: tr.abs}}
		for path := range search.Each(ctx, tr.walk(ctx, ws, o, g.match), visitor) {
			if !l.add(path) {
				break
			}
		}
		if ctx.Err() != nil {
			return tool.Result{}, context.Cause(ctx)
		}
		l.details.Secrets, l.details.Unreadable = int(tr.secrets.Load()), tr.unreadable
		return l.result("No files found matching pattern", "results", "refine the pattern", tr.notes()), nil
	})
	t.ReadOnly = true
	t.Fold = func(in map[string]any) {
		tool.Rename(in, "glob", "pattern", "directory", "path", "dir", "path")
	}
	t.Subjects = pathSubjects(ws, "Read", resolveExisting, func(in findInput) string { return orDot(in.Path) })
	return t
}

// A listing is a list of names with a limit.
type listing struct {
	limit   int
	bytes   int
	details ListDetails
	out     strings.Builder
}

// add reports whether more may be added.
func (l *listing) add(name string) bool {
	if l.details.Entries == l.limit {
		l.details.More = true
		return false
	}
	l.details.Entries++
	// A name may hold a line break; a list of lines must not.
	l.out.WriteString(strings.ReplaceAll(strings.ToValidUTF8(name, "\ufffd"), "\n", `\n`))
	l.out.WriteByte('\n')
	return true
}

func (l *listing) result(none, noun, narrow string, left []string) tool.Result {
	text, c := truncateHead(l.out.String(), limits{l.limit, l.bytes})
	text = strings.TrimSuffix(text, "\n")
	if l.details.Entries == 0 {
		text = none
	}
	var notes []string
	if l.details.More {
		notes = append(notes, fmt.Sprintf("%d %s limit reached. Use limit=%d for more, or %s.", l.limit, noun, twice(l.limit), narrow))
	}
	if c.By != "" {
		l.details.Cut = &c
		notes = append(notes, fmt.Sprintf("Showing %d of %d (%s). To see the rest, %s.", c.Lines, c.TotalLines, limitName(c), narrow))
	}
	res := tool.Text(footnoted(text, append(notes, left...)))
	res.Details = l.details
	return res
}
