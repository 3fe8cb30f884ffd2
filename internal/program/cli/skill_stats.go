package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/engine/skillstats"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// statsJSON is what `skill stats --json` prints.
type statsJSON struct {
	skillstats.Counts
	Unused []unusedJSON `json:"unused"` // skills found here that never came into use, those that cost most first
}

type unusedJSON struct {
	Name   string `json:"name"`
	Tokens int    `json:"tokens"` // of its line in the list that each request has
}

func skillStatsCommand() *cobra.Command {
	var f projectFlags
	var asJSON bool
	c := &cobra.Command{
		Use:   "stats",
		Short: "Show how skills were used on this machine, and what came of it",
		Long: `Show how often each skill came into use in the sessions on this machine, by whom, what
its texts and its turns cost, and how many of these turns failed or were taken back. A
turn counts for each skill that came into use in it. Then come the skills found here
that were never used, and what their lines in each request cost.

The sessions are read where they are; nothing leaves this machine.`,
		Example: "  knack skill stats\n  knack skill stats --json",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			x := statsJSON{Unused: []unusedJSON{}}
			cat, err := f.load(c.Context())
			if err != nil {
				return err
			}
			if dir := engine.Env(nil).StateFile("sessions"); dir != "" {
				if x.Counts, err = skillstats.Read(dir); err != nil {
					return fmt.Errorf("the sessions in %s cannot be read: %w", plain.Line(filepath.Clean(dir)), err)
				}
			}
			x.Unused = unusedSkills(cat, x.Skills)
			if asJSON {
				x.Skills = append([]skillstats.Skill{}, x.Skills...)
				return writeJSON(c.OutOrStdout(), x)
			}
			x.write(c, time.Now())
			return nil
		},
	}
	f.register(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// unusedSkills returns the listed skills that never came into use.
func unusedSkills(cat *command.Skills, used []skillstats.Skill) []unusedJSON {
	all := []unusedJSON{}
	for _, e := range cat.Candidates() {
		if e.Skill == nil || e.State != knack.Active || e.Origin.Kind == knack.Bundled ||
			slices.ContainsFunc(used, func(s skillstats.Skill) bool { return s.Name == e.Skill.Name && s.Uses() > 0 }) {
			continue
		}
		all = append(all, unusedJSON{e.Skill.Name, knack.EstimateTokens(e.Skill.Name + e.Skill.Description +
			e.Skill.WhenToUse)})
	}
	order.Stable(all, func(a, b unusedJSON) int { return b.Tokens - a.Tokens })
	return all
}

// shownUnused is how many unused skills are listed.
const shownUnused = 10

func (x *statsJSON) write(c *cobra.Command, now time.Time) {
	out := c.OutOrStdout()
	if len(x.Skills) > 0 {
		rows := [][]string{{"NAME", "USER", "MODEL", "AGENT", "REFUSED", "TOKENS", "COST", "FAILED", "UNDONE", "LAST"}}
		for _, s := range x.Skills {
			last := "-"
			if !s.Last.IsZero() {
				last = plain.Count(int(now.Sub(s.Last).Hours()/24), "day") + " ago"
			}
			rows = append(rows, []string{s.Name, strconv.Itoa(s.User), strconv.Itoa(s.Model), strconv.Itoa(s.Agent),
				strconv.Itoa(s.Refused), plain.Number(s.Tokens), fmt.Sprintf("$%.2f", s.Cost), strconv.Itoa(s.Failed),
				strconv.Itoa(s.Undone), last})
		}
		writeTable(out, rows)
	} else {
		fmt.Fprintf(out, "No skill came into use in %s.\n", plain.Count(x.Sessions, "session"))
	}
	if x.Unread > 0 {
		fmt.Fprintf(c.ErrOrStderr(), "knack: warn: %s could not be read to the end\n", plain.Count(x.Unread, "session"))
	}
	if len(x.Unused) == 0 {
		return
	}
	tokens := 0
	for _, u := range x.Unused {
		tokens += u.Tokens
	}
	fmt.Fprintf(out, "\n%s of this directory never came into use; their lines cost about %d tokens in each request:\n",
		plain.Count(len(x.Unused), "skill"), tokens)
	for i, u := range x.Unused {
		if i == shownUnused {
			fmt.Fprintf(out, "  and %d more\n", len(x.Unused)-i)
			break
		}
		fmt.Fprintf(out, "  %s (%d)\n", plain.Line(u.Name), u.Tokens)
	}
}
