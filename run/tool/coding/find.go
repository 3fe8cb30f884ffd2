package coding

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/search"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/truncate"
)

//go:embed find.md
var findText string

//go:embed find.json
var findSchema []byte

type findInput struct {
	Pattern string `json:"pattern" jsonschema:"glob, such as *.go or src/**/*_test.{go,ts}"`
	Path    string `json:"path,omitempty" jsonschema:"directory to search; the working directory if left out"`
	Limit   *int   `json:"limit,omitempty" jsonschema:"paths shown at most, 1000 if left out"`
}

// ListDetails describes what find or ls listed.
type ListDetails struct {
	Path       string        `json:"path"`    // absolute
	Entries    int           `json:"entries"` // shown
	More       bool          `json:"more,omitempty"`
	Secrets    int           `json:"secrets,omitempty"`    // secret paths left out
	RuledOut   int           `json:"ruledOut,omitempty"`   // paths left out because of deny and ask rules
	Unreadable int           `json:"unreadable,omitempty"` // unreadable paths left out
	Cut        *truncate.Cut `json:"truncation,omitempty"`
}

const findLimit = 1000

func findTool(ws treeFS, o FileOptions) tool.Tool {
	t := tool.Define("find", strings.TrimSpace(findText), findSchema, func(ctx context.Context, in findInput,
		call tool.Input) (tool.Result, error) {
		tr, l, err := openListing(ctx, ws, o, in.Path, in.Limit, findLimit, call)
		if err != nil {
			return tool.Result{}, err
		}
		defer tr.Close()
		if err := tr.readAhead(); err != nil {
			return tool.Result{}, err
		}
		g, err := newGlob(in.Pattern, tr.real)
		if err != nil {
			return tool.Result{}, err
		}
		visitor := func() func(*search.Found) []string {
			return func(e *search.Found) []string {
				if !g.match(e) {
					return nil
				}
				if e.Type.IsDir() {
					return []string{e.Path() + "/"}
				}
				return []string{e.Path()}
			}
		}
		for path := range search.Each(ctx, tr.walk(ctx, ws, o, g.match), visitor) {
			if !l.add(path) {
				break
			}
		}
		if ctx.Err() != nil && l.details.Entries == 0 {
			return tool.Result{}, context.Cause(ctx)
		}
		l.details.Secrets, l.details.RuledOut = int(tr.secrets.Load()), int(tr.ruledOut.Load())
		l.details.Unreadable = tr.unreadable
		res := l.result("No files found matching pattern", "results", "refine the pattern", tr.notes(l.details.Entries > 0))
		res.People = "Found " + l.count("path") + " for " + searchName(in.Pattern, "")
		if in.Path != "" {
			res.People += " in " + relative(ws.Dir(), tr.abs)
		}
		if in.Path != "" {
			res.Touched = []string{tr.abs}
		}
		return res, context.Cause(ctx)
	})
	t.Effect, t.Aliases = tool.Reads, []string{"Glob"}
	t.Fields = []tool.Field{{Name: "pattern", Other: []string{"glob"}},
		{Name: "path", Other: []string{"directory", "dir"}}}
	t.Summary = tool.SummaryOf(func(in findInput) string { return searchName(in.Pattern, in.Path) })
	t.Locate = locateDir(ws)
	t.Subjects = pathSubjects(ws, permission.KindRead, resolveExisting,
		func(in findInput) string { return defaultDir(in.Path) })
	return t
}

// searchName describes a search: its pattern and path.
func searchName(pattern, path string) string {
	if path == "" {
		return pattern
	}
	return pattern + " in " + path
}

// A listing is a list of names with a limit.
type listing struct {
	limit   int
	bytes   int
	details ListDetails
	out     strings.Builder
}

func openListing(ctx context.Context, ws treeFS, o FileOptions, path string, limit *int, standard int,
	call tool.Input) (*tree, *listing, error) {
	proposed, err := checkLimit(limit, standard)
	if err != nil {
		return nil, nil, err
	}
	tr, err := openTree(ctx, ws, defaultDir(path), call)
	if err != nil {
		return nil, nil, err
	}
	if tr.dir == nil {
		return nil, nil, notDirectory(tr.abs)
	}
	return tr, &listing{limit: proposed, bytes: o.listLimits().Bytes, details: ListDetails{Path: tr.abs}}, nil
}

// add appends a name and reports whether more may be added.
func (l *listing) add(name string) bool {
	if l.details.Entries == l.limit {
		l.details.More = true
		return false
	}
	l.details.Entries++
	l.out.WriteString(oneLine(name))
	l.out.WriteByte('\n')
	return true
}

// count describes for the user how many names there are.
func (l *listing) count(noun string) string {
	text := count(l.details.Entries, noun)
	if l.details.More {
		text += " and more"
	}
	return text
}

// oneLine formats a path for a list of lines, since it may contain line breaks or bytes
// that are not text.
func oneLine(path string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(path, "\ufffd"), "\n", `\n`)
}

func (l *listing) result(none, noun, narrow string, left []string) tool.Result {
	text, c := truncate.ToHead(l.out.String(), truncate.Limits{Lines: l.limit, Bytes: l.bytes})
	text = strings.TrimSuffix(text, "\n")
	if l.details.Entries == 0 {
		text = none
	}
	var notes []string
	if l.details.More {
		notes = append(notes, fmt.Sprintf("%d %s limit reached. Use limit=%d for more, or %s.", l.limit, noun,
			proposedLimit(l.limit),
			narrow))
	}
	if c.By != "" {
		l.details.Cut = &c
		notes = append(notes, fmt.Sprintf("Showing %d of %d (%s). To see the rest, %s.", c.Lines, c.TotalLines, limitName(c),
			narrow))
	}
	res := tool.Text(withNotes(text, append(notes, left...)))
	res.Details = l.details
	return res
}
