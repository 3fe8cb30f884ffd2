package cli

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/project/install"
)

// lockedJSON is the state of one item of a lock as `skill verify --json` prints it.
type lockedJSON struct {
	ID    string `json:"id"`
	Lock  string `json:"lock"`
	State string `json:"state"` // ok, or how it differs
}

func skillVerifyCommand() *cobra.Command {
	var locked bool
	c := &cobra.Command{
		Use:   "verify",
		Short: "Compare what is installed with skills.lock, by content",
		Long: `Compare what is installed with skills.lock, by content: every file of every plugin and skill
in your own lock and in the project's (.knack/skills.lock).

Exit code 1 means that something differs. With --locked, for CI, that is exit code 3,
and a plugin that the settings turn on must also be in a lock.`,
		Example: "  knack skill verify\n  knack skill verify --locked",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := verifyLocks(c, locked)
			if err != nil {
				return err
			}
			bad := 0
			for _, x := range all {
				if x.State != "ok" {
					bad++
				}
			}
			if asJSON, err := c.Flags().GetBool("json"); err == nil && asJSON {
				if err := writeJSON(c.OutOrStdout(), all); err != nil {
					return err
				}
			} else {
				rows := [][]string{{"NAME", "STATE", "LOCK"}}
				for _, x := range all {
					rows = append(rows, []string{x.ID, x.State, x.Lock})
				}
				writeTable(c.OutOrStdout(), rows)
			}
			if bad == 0 {
				return nil
			}
			e := &engine.Error{Err: fmt.Errorf("%s from skills.lock", plain.Count(bad, "difference")),
				Hint: "knack skill diff NAME, then knack skill accept NAME or knack plugin update NAME"}
			if locked {
				e.Exit = engine.ExitRefused
			}
			return e
		},
	}
	resultJSON(c)
	c.Flags().BoolVar(&locked, "locked", false, "exit with 3 if anything differs, or is not locked")
	return c
}

func verifyLocks(c *cobra.Command, locked bool) ([]lockedJSON, error) {
	s, err := userStore()
	if err != nil {
		return nil, err
	}
	p, err := engine.Load(c.Context(), engine.Options{Version: version()})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	mine, err := install.ReadLock(s.Lock)
	if err != nil {
		return nil, err
	}
	project := filepath.Join(p.Root(), ".knack", install.LockName)
	theirs, err := install.ReadLock(project)
	if err != nil {
		return nil, err
	}
	all := []lockedJSON{}
	for _, id := range slices.Concat(install.IDs(mine.Plugins), install.IDs(mine.Skills)) {
		all = append(all, lockedJSON{id, s.Lock, verifyItem(s, mine.Item(id))})
	}
	for _, id := range install.IDs(theirs.Plugins) {
		x := lockedJSON{id, project, "ok"}
		if it := mine.Plugins[id]; it == nil {
			x.State = "not installed"
		} else if it.Tree != theirs.Plugins[id].Tree {
			x.State = "another version is installed"
		}
		all = append(all, x)
	}
	for id, on := range p.Plugins().Enabled() {
		if locked && on && mine.Plugins[id] == nil && theirs.Plugins[id] == nil && !strings.HasSuffix(id, "@builtin") {
			all = append(all, lockedJSON{id, "", "on in the settings, and in no lock"})
		}
	}
	return all, nil
}

func verifyItem(s *install.Store, it *install.Item) string {
	drift, err := it.Files.Verify(s.Path(it))
	switch {
	case err != nil:
		return err.Error()
	case !drift.IsZero():
		return drift.String()
	}
	return "ok"
}

// lockedItem finds an item of the user's lock.
func lockedItem(id string) (*install.Store, *install.Item, error) {
	s, err := userStore()
	if err != nil {
		return nil, nil, err
	}
	lock, err := install.ReadLock(s.Lock)
	if err != nil {
		return nil, nil, err
	}
	if it := lock.Item(id); it != nil {
		return s, it, nil
	}
	return nil, nil, &engine.Error{Err: fmt.Errorf("%s is not installed", plain.Line(id)), Hint: "knack skill verify"}
}

func skillDiffCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "diff NAME",
		Short:   "Show how an installed plugin or skill differs from skills.lock",
		Example: "  knack skill diff tools@acme",
		Args:    exactly(1, "knack skill diff NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			s, it, err := lockedItem(args[0])
			if err != nil {
				return err
			}
			d, err := s.Diff(it)
			if err != nil {
				return err
			}
			plain.Writer(c.OutOrStdout()).Write([]byte(d.Text))
			return nil
		},
	}
	return c
}

func skillAcceptCommand() *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "accept NAME",
		Short: "Use an installed plugin or skill as it is now, although it differs from skills.lock",
		Long: `Use an installed plugin or skill as it is now, although it differs from skills.lock.
The difference is shown first; the lock then records the files that you saw.`,
		Example: "  knack skill accept tools@acme",
		Args:    exactly(1, "knack skill accept NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			s, it, err := lockedItem(args[0])
			if err != nil {
				return err
			}
			d, err := s.Diff(it)
			if err != nil {
				return err
			}
			if d.IsZero() {
				fmt.Fprintf(c.OutOrStdout(), "%s does not differ\n", plain.Line(args[0]))
				return nil
			}
			plain.Writer(c.ErrOrStderr()).Write([]byte(d.Text))
			if !yes {
				ok, err := confirm(c, "Use it as it is now?", "knack skill accept --yes accepts what is shown")
				if err != nil || !ok {
					return err
				}
			}
			if err := s.Accept(args[0], d.Tree); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is accepted as it is now\n", plain.Line(args[0]))
			return nil
		},
	}
	c.Flags().BoolVarP(&yes, "yes", "y", false, "accept without being asked")
	return c
}
