package coding

import (
	"context"
	_ "embed"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/charset"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/search"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/truncate"
)

//go:embed grep.md
var grepText string

//go:embed grep.json
var grepSchema []byte

type grepInput struct {
	Pattern    string `json:"pattern" jsonschema:"regular expression in RE2 syntax, or text if literal is set"`
	Path       string `json:"path,omitempty" jsonschema:"directory or file to search; the working directory if left out"`
	Glob       string `json:"glob,omitempty" jsonschema:"only files that match, such as src/**/*.ts; !*.go: all others"`
	IgnoreCase bool   `json:"ignoreCase,omitempty"`
	Literal    bool   `json:"literal,omitempty" jsonschema:"the pattern is text, not an expression"`
	Context    int    `json:"context,omitempty" jsonschema:"lines to show before and after each match"`
	Multiline  bool   `json:"multiline,omitempty" jsonschema:"let a match span lines"`
	FilesOnly  bool   `json:"filesOnly,omitempty" jsonschema:"list only the paths of files with a match"`
	Limit      *int   `json:"limit,omitempty" jsonschema:"matches shown at most, 100 if left out"`
}

// GrepDetails describes what grep found.
type GrepDetails struct {
	Path       string        `json:"path"`    // absolute
	Matches    int           `json:"matches"` // shown: lines, or files with filesOnly
	Files      int           `json:"files"`   // files with a match that is shown
	More       bool          `json:"more,omitempty"`
	Secrets    int           `json:"secrets,omitempty"`    // secret paths left out
	RuledOut   int           `json:"ruledOut,omitempty"`   // paths left out because of deny and ask rules
	Unreadable int           `json:"unreadable,omitempty"` // unreadable paths left out
	Cut        *truncate.Cut `json:"truncation,omitempty"`
}

const (
	grepLimit  = 100
	maxContext = 100
)

// A hit is a file with matches.
type hit struct {
	path  string
	lines []search.Line
}

// encoding guesses the encoding of the file from the lines that were found.
func (h hit) encoding() charset.Encoding {
	var found []byte
	for _, l := range h.lines {
		found = append(append(found, l.Text...), '\n')
	}
	return charset.Detect(found)
}

func grepTool(ws treeFS, o FileOptions) tool.Tool {
	t := tool.Define("grep", strings.TrimSpace(grepText), grepSchema, func(ctx context.Context, in grepInput,
		call tool.Input) (tool.Result, error) {
		limit, err := checkLimit(in.Limit, grepLimit)
		if err != nil {
			return tool.Result{}, err
		}
		if in.Context < 0 || in.Context > maxContext {
			return tool.Result{}, fmt.Errorf("context is %d: it must be from 0 to %d", in.Context, maxContext)
		}
		if in.Pattern == "" {
			return tool.Result{}, fmt.Errorf("pattern is empty: every line would match")
		}
		p, err := search.Compile(in.Pattern, search.Options{IgnoreCase: in.IgnoreCase, Literal: in.Literal,
			Multiline: in.Multiline})
		if err != nil {
			return tool.Result{}, err
		}
		tr, err := openTree(ctx, ws, defaultDir(in.Path), call)
		if err != nil {
			return tool.Result{}, err
		}
		defer tr.Close()
		if err := tr.readAhead(); err != nil {
			return tool.Result{}, err
		}
		g := &grepCall{grepInput: in, limit: limit, limits: o.listLimits(), details: GrepDetails{Path: tr.abs}}
		searcher := func() *search.Searcher {
			s := p.Searcher(in.Multiline)
			s.Context, s.Max, s.FirstOnly = in.Context, limit+1, in.FilesOnly
			if strings.ContainsFunc(in.Pattern, func(r rune) bool { return r >= utf8.RuneSelf }) {
				s.Decode = func(data []byte) []byte { return charset.Detect(data).Decode(nil, data) }
			}
			return s
		}
		if tr.dir == nil {
			err = g.file(ctx, ws, tr, searcher())
		} else {
			err = g.tree(ctx, ws, tr, o, p, searcher)
		}
		if err != nil && g.details.Matches == 0 {
			return tool.Result{}, err
		}
		g.details.Secrets, g.details.RuledOut = int(tr.secrets.Load()), int(tr.ruledOut.Load())
		g.details.Unreadable = tr.unreadable
		res := tool.Text(g.text(tr.notes(g.details.Matches > 0)))
		res.Details, res.People = g.details, g.people(tr, ws.Dir())
		if in.Path != "" {
			res.Touched = []string{tr.abs}
		}
		return res, err
	})
	t.Effect, t.Aliases = tool.Reads, []string{"Grep"}
	t.Fields = []tool.Field{
		{Name: "pattern", Other: []string{"regex", "query"}}, {Name: "glob", Other: []string{"include"}},
		{Name: "ignoreCase", Other: []string{"ignore_case", "-i"}}, {Name: "context", Other: []string{"-C"}},
		{Name: "limit", Other: []string{"head_limit"}}, {Name: "path", Other: []string{"directory"}},
	}
	t.Convert = func(in tool.Object) {
		switch string(in["output_mode"]) {
		case `"files_with_matches"`:
			in.Set("filesOnly", true)
			fallthrough
		case `"content"`:
			delete(in, "output_mode")
		}
	}
	t.Summary = tool.SummaryOf(func(in grepInput) string { return searchName(in.Pattern, in.Path) })
	t.Locate = locateDir(ws)
	t.Subjects = pathSubjects(ws, permission.KindRead, resolveExisting,
		func(in grepInput) string { return defaultDir(in.Path) })
	return t
}

// people describes for the user what was found.
func (g *grepCall) people(tr *tree, dir string) string {
	more, in := "", ""
	if g.details.More {
		more = " and more"
	}
	if g.Path != "" {
		in = " in " + relative(dir, tr.abs)
	}
	switch d := g.details; {
	case d.Matches == 0:
		return "Found nothing for " + g.Pattern + in
	case g.FilesOnly:
		return "Found " + plain.Count(d.Files, "file") + more + " with " + g.Pattern + in
	default:
		return fmt.Sprintf("Found %s%s in %s for %s%s", plain.Count(d.Matches, "line"), more, plain.Count(d.Files, "file"),
			g.Pattern, in)
	}
}

func defaultDir(path string) string {
	if path == "" {
		return "."
	}
	return path
}

// A grepCall is one call of grep with its results so far.
type grepCall struct {
	grepInput
	limit   int
	limits  truncate.Limits
	details GrepDetails
	out     strings.Builder
	cut     bool // a line was cut
}

// file searches one file.
func (g *grepCall) file(ctx context.Context, ws treeFS, tr *tree, s *search.Searcher) error {
	f, err := ws.Open(ctx, tr.real)
	if err != nil {
		return fileError(tr.abs, err)
	}
	defer f.Close()
	if f.Realpath() != tr.real {
		return fmt.Errorf("%s was changed to lead elsewhere while the call was being decided on: try again", tr.abs)
	}
	lines, n, err := s.File(f)
	if err != nil {
		return fileError(tr.abs, err)
	}
	if n > 0 {
		g.add(hit{filepath.Base(tr.abs), lines})
	}
	return nil
}

// searchFS is a workspace that can itself find the files that contain a text.
type searchFS interface {
	Search(ctx context.Context, dir, literal string, fold bool) ([]string, error)
}

// tree searches all files of a directory.
func (g *grepCall) tree(ctx context.Context, ws treeFS, tr *tree, o FileOptions, p *search.Pattern,
	searcher func() *search.Searcher) error {
	var only glob
	if g.Glob != "" {
		pattern, not := strings.CutPrefix(g.Glob, "!")
		var err error
		if only, err = newGlob(pattern, tr.real); err != nil {
			return err
		}
		only.not = not
	}
	var candidates map[string]bool
	if _, local := ws.(osFS); !local {
		texts, fold := p.Required()
		if remote, ok := ws.(searchFS); ok && texts != nil {
			candidates = map[string]bool{}
			for _, text := range texts {
				files, err := remote.Search(ctx, tr.real, text, fold)
				if err != nil {
					return err
				}
				for _, f := range files {
					candidates[f] = true
				}
			}
		}
	}
	progress := func(e *search.Found) bool {
		return e.Type.IsRegular() && (g.Glob == "" || only.match(e))
	}
	visitor := func() func(*search.Found) []hit {
		s := searcher()
		return func(e *search.Found) []hit {
			if !progress(e) || candidates != nil && !candidates[tr.real+"/"+e.Path()] {
				return nil
			}
			f, err := e.Dir.Open(e.Name)
			if err != nil {
				tr.problem(e.Path(), err)
				return nil
			}
			lines, n, err := s.File(f)
			f.Close()
			if err != nil {
				tr.problem(e.Path(), err)
			}
			if n == 0 {
				return nil
			}
			return []hit{{e.Path(), lines}}
		}
	}
	for h := range search.Each(ctx, tr.walk(ctx, ws, o, progress), visitor) {
		if !g.add(h) {
			break
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// add adds a file's matches to the output. It reports whether more may be added.
func (g *grepCall) add(h hit) bool {
	if g.details.Matches == g.limit {
		g.details.More = true
		return false
	}
	g.details.Files++
	h.path = oneLine(h.path)
	if g.FilesOnly {
		g.details.Matches++
		g.out.WriteString(h.path)
		g.out.WriteByte('\n')
		return true
	}
	last := 0 // line of the last match
	for i, l := range h.lines {
		if l.Match && g.details.Matches == g.limit {
			g.details.More = true
			return false
		}
		if !l.Match && g.details.Matches == g.limit && l.Num > last+g.Context {
			// This line is context of a match that is not shown.
			g.details.More = g.details.More || i < len(h.lines)
			return false
		}
		sep := byte('-')
		if l.Match {
			g.details.Matches++
			last = l.Num
			sep = ':'
		}
		g.out.WriteString(h.path)
		g.out.WriteByte(sep)
		g.out.WriteString(strconv.Itoa(l.Num))
		g.out.WriteByte(sep)
		text := l.Text
		if !utf8.ValidString(text) || strings.Contains(text, "\x1b$") {
			text = valid(text, h.encoding())
		}
		text, cut := truncate.Line(text, maxLine)
		g.cut = g.cut || cut
		if text != "" {
			g.out.WriteByte(' ')
			g.out.WriteString(text)
		}
		g.out.WriteByte('\n')
	}
	return true
}

// text returns the output of the call.
func (g *grepCall) text(left []string) string {
	text, c := truncate.ToHead(g.out.String(), g.limits)
	text = strings.TrimSuffix(text, "\n")
	if g.details.Matches == 0 {
		text = "No matches found"
	}
	var notes []string
	if g.details.More {
		what := "matches"
		if g.FilesOnly {
			what = "files"
		}
		notes = append(notes, fmt.Sprintf("%d %s limit reached. Use limit=%d for more, or refine the pattern.", g.limit, what,
			proposedLimit(g.limit)))
	}
	if c.By != "" {
		g.details.Cut = &c
		notes = append(notes, fmt.Sprintf("Showing lines 1-%d of %d (%s). Search a narrower path, or refine the pattern.",
			c.Lines, c.TotalLines, limitName(c)))
	}
	if g.cut {
		notes = append(notes, fmt.Sprintf("Some lines are cut to %d characters: use read to see them whole.", maxLine))
	}
	return withNotes(text, append(notes, left...))
}

// maxLine limits one line, in characters.
const maxLine = 500

// limitName returns the name of the limit that caused a cut.
func limitName(c truncate.Cut) string {
	if c.By == truncate.ByLines {
		return fmt.Sprintf("%d lines limit", truncate.Default().Lines)
	}
	return plain.Size(int64(truncate.Default().Bytes)) + " limit"
}
