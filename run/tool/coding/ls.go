package coding

import (
	"cmp"
	"context"
	_ "embed"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/search"
	"github.com/knack-agent/knack/run/tool"
)

//go:embed ls.md
var lsText string

//go:embed ls.json
var lsSchema []byte

type lsInput struct {
	Path  string `json:"path,omitempty" jsonschema:"directory to list; the working directory if left out"`
	Limit *int   `json:"limit,omitempty" jsonschema:"entries shown at most, 500 if left out"`
}

const lsLimit = 500

func lsTool(ws treeFS, o FileOptions) tool.Tool {
	t := tool.Define("ls", strings.TrimSpace(lsText), lsSchema,
		func(ctx context.Context, in lsInput, call tool.Input) (tool.Result,
			error) {
			tr, l, err := openListing(ctx, ws, o, in.Path, in.Limit, lsLimit, call)
			if err != nil {
				return tool.Result{}, err
			}
			defer tr.Close()
			entries, err := tr.dir.ReadDir()
			if err != nil {
				return tool.Result{}, fileError(tr.abs, err)
			}
			type row struct {
				key string
				fs.DirEntry
			}
			rows := make([]row, len(entries))
			for i, e := range entries {
				rows[i] = row{strings.ToLower(e.Name()), e}
			}
			order.Stable(rows, func(a, b row) int {
				return cmp.Or(strings.Compare(a.key, b.key), strings.Compare(a.Name(), b.Name()))
			})
			leftOut := tr.leftOut(ctx, ws, o)
			for _, e := range rows {
				name := e.Name()
				if n := leftOut(&search.Found{Name: name, Type: e.Type()}); n != nil {
					n.Add(1)
					continue
				}
				dir := e.IsDir()
				if e.Type()&fs.ModeSymlink != 0 && l.details.Entries < l.limit {
					info, err := ws.Stat(ctx, filepath.Join(tr.real, name))
					dir = err == nil && info.IsDir()
				}
				if dir {
					name += "/"
				}
				if !l.add(name) {
					break
				}
			}
			l.details.Secrets, l.details.RuledOut = int(tr.secrets.Load()), int(tr.ruledOut.Load())
			res := l.result("(empty directory)", "entries", "use find with a name", tr.notes(true))
			res.People = "Listed " + count(l.details.Entries, "name") + " in " + relative(ws.Dir(), tr.abs)
			return res, nil
		})
	t.Effect, t.Aliases = tool.Reads, []string{"LS"}
	t.Fields = []tool.Field{{Name: "path", Other: []string{"directory", "dir"}}}
	t.Summary = tool.SummaryOf(func(in lsInput) string { return defaultDir(in.Path) })
	t.Locate = locateDir(ws)
	t.Subjects = pathSubjects(ws, permission.KindRead, resolveExisting,
		func(in lsInput) string { return defaultDir(in.Path) })
	return t
}
