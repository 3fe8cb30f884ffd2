package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// foundJSON is one result of skill find.
type foundJSON struct {
	CommandName string           `json:"commandName"`
	Kind        knack.SourceKind `json:"kind"`
	Label       string           `json:"label,omitempty"`
	Path        string           `json:"path"`
	Description string           `json:"description"`
	WhenToUse   string           `json:"whenToUse"`
	Named       bool             `json:"named"` // the query is, or contains, the name, alias or label
	Score       float64          `json:"score"` // from the text alone; higher is better
	Share       float64          `json:"share"` // of the query's words found, from 0 to 1; rare words count more
}

func skillFindCommand() *cobra.Command {
	var f projectFlags
	var asJSON bool
	limit := 10
	c := &cobra.Command{
		Use:   "find WORDS...",
		Short: "Find the skills that best match some words",
		Long: `Find the skills that best match some words. The search covers names, aliases,
descriptions, headings, texts and the names of their other files, in any script, and
uses neither a model nor the network. A skill whose name you give comes first.

The index is built when it is first needed, and stored in the state directory
(knack help environment).`,
		Example: `  knack skill find merge two pdf files
  knack skill find --json 写周报 | jq -r '.[].commandName'`,
		Args: func(_ *cobra.Command, args []string) error {
			if strings.TrimSpace(strings.Join(args, "")) == "" {
				return engine.Usagef("knack skill find merge two pdf files", "skill find needs words to look for")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if limit < 1 || limit > 1000 {
				return engine.Usagef("knack skill find -n 10 WORDS", "-n %d: must be from 1 to 1000", limit)
			}
			p, err := engine.Load(c.Context(), f.options())
			if err != nil {
				return err
			}
			cat := knack.Load(c.Context(), p.Sources()...)
			finder := p.Finder()
			if !finder.Ready(c.Context(), cat) {
				steadyGC() // building an index makes much garbage
			}
			if err := finder.Prepare(c.Context(), cat); err != nil && c.Context().Err() == nil {
				fmt.Fprintf(c.ErrOrStderr(), "knack: warn: the index of skills cannot be stored: %s\n", plain.Line(err.Error()))
			}
			found, err := finder.Find(c.Context(), cat, strings.Join(args, " "), limit, func(s *knack.Skill) bool {
				return p.View().Overrides[s.Name] != knack.Off
			})
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			if asJSON {
				list := make([]foundJSON, len(found))
				for i, m := range found {
					s := m.Skill
					list[i] = foundJSON{s.Name, s.Origin.Kind, s.Origin.Label, s.Path, s.Description, s.WhenToUse, m.Named, m.Score,
						m.Share}
				}
				return writeJSON(out, list)
			}
			if n := untrustedMatches(cat, args); n > 0 {
				fmt.Fprintf(c.ErrOrStderr(), "knack: info: skills that are not trusted, with these words in their names and "+
					"descriptions: %d\n"+
					"knack: hint: knack trust --show\n", n)
			}
			if len(found) == 0 {
				return &engine.Error{Err: errors.New("no skill matches these words"), Hint: "knack skill list"}
			}
			rows := [][]string{{"NAME", "SOURCE", "DESCRIPTION"}}
			for _, m := range found {
				rows = append(rows, []string{plain.Line(m.Skill.Name), engine.SourceName(m.Skill.Origin),
					engine.Clip(m.Skill.Summary(), 96)})
			}
			writeTable(out, rows)
			return nil
		},
	}
	f.register(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print an array of objects")
	c.Flags().IntVarP(&limit, "max", "n", limit, "find at most `N` skills")
	return c
}

// untrustedMatches counts the skills that are not searched because they are not trusted, and whose names and
// descriptions have all the words. They are in no index: only their frontmatter has been read.
func untrustedMatches(cat *knack.Catalog, words []string) (n int) {
	words = strings.Fields(strings.ToLower(strings.Join(words, " ")))
	for _, e := range cat.Candidates() {
		if e.State != knack.NotTrusted {
			continue
		}
		text := strings.ToLower(e.Name() + " " + e.Skill.Summary())
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			n++
		}
	}
	return n
}
