package cli

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/installer"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/outfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/sources"
)

// lockedJSON is the state of one item of a lock as `skill verify --json` prints it.
type lockedJSON struct {
	ID    string `json:"id"`
	Lock  string `json:"lock"`
	State string `json:"state"` // ok, or how it differs
}

func skillVerifyCommand() *cobra.Command {
	var locked bool
	var keys []string
	c := &cobra.Command{
		Use:   "verify",
		Short: "Compare what is installed with skills.lock, by content",
		Long: `Compare what is installed with skills.lock, by content: every file of every plugin and skill
in your own lock and in the project's (.knack/skills.lock), and the skills in the
project's skills-lock.json, which the npm program skills writes.

A signature of the project's lock beside it (skills.lock.sig of ssh-keygen -Y sign -n
knack-skills, skills.lock.minisig of minisign) must be valid. The key of the first one
is remembered, and another key is a difference. With --key, one of these keys must have
signed it; nothing is remembered.

Exit code 1 means that something differs. With --locked, for CI, that is exit code 3,
and a plugin that the settings turn on must also be in a lock.`,
		Example: "  knack skill verify\n  knack skill verify --locked --key team.pub",
		Args:    noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := verifyLocks(c, locked, keys)
			if err != nil {
				return err
			}
			bad := 0
			for _, x := range all {
				if x.State != "ok" {
					bad++
				}
			}
			if wantsJSON(c) {
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
	c.Flags().StringArrayVar(&keys, "key", nil,
		"a public `KEY` of minisign or SSH that may sign the project's lock, or a file with it")
	c.Flags().BoolVar(&locked, "locked", false, "exit with 3 if anything differs, or is not locked")
	return c
}

func verifyLocks(c *cobra.Command, locked bool, keys []string) ([]lockedJSON, error) {
	x, err := newInstaller(c, installFlags{key: keys})
	if err != nil {
		return nil, err
	}
	defer x.Close()
	s, p, mine, project := x.Store, x.project, x.lock, x.ProjectLock()
	used, _, err := s.InProject(p.Root())
	if err != nil {
		return nil, err
	}
	theirs, err := install.ReadLock(project)
	if err != nil {
		return nil, err
	}
	all := []lockedJSON{}
	for _, id := range slices.Concat(install.IDs(mine.Plugins), install.IDs(mine.Skills)) {
		all = append(all, lockedJSON{id, s.Lock, verifyItem(s, mine.Item(id))})
	}
	for _, id := range slices.Concat(install.IDs(theirs.Plugins), install.IDs(theirs.Skills)) {
		all = append(all, lockedJSON{id, project, comparedWith(theirs.Item(id), used.Item(id), p.Root())})
	}
	signed := lockedJSON{install.LockName, project, "ok"}
	switch found, err := s.VerifyLock(project, x.Keys); {
	case err != nil:
		signed.State = err.Error()
		all = append(all, signed)
	case len(found.Signers) > 0:
		all = append(all, signed)
		first := ""
		if found.First {
			first = ", a key that is new here: compare it with what its owner publishes"
		}
		fmt.Fprintf(c.ErrOrStderr(), "%s is signed by %s%s\n", plain.Line(project), install.SignerNames(found.Signers), first)
	}
	others, err := install.NPMSkills(p.Root())
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		all = append(all, lockedJSON{plain.Line(name), filepath.Join(p.Root(), install.NPMLockName), others[name].State})
	}
	for id, on := range p.Plugins().Enabled() {
		if locked && on && mine.Plugins[id] == nil && theirs.Plugins[id] == nil && !strings.HasSuffix(id, "@builtin") {
			all = append(all, lockedJSON{id, "", "on in the settings, and in no lock"})
		}
	}
	return all, nil
}

// comparedWith says how what is installed differs from what a lock wants. The same files from elsewhere differ: the
// next update would come from there.
func comparedWith(want, it *install.Item, root string) string {
	source := want.Source
	if on, ok := install.OnMachine(source, root); ok {
		source = on
	}
	switch {
	case it == nil:
		return "not installed"
	case it.Tree != want.Tree:
		return "another version is installed"
	case !maps.Equal(it.Files, want.Files):
		return "the lock has other hashes of its files than were installed"
	case it.Commit != want.Commit:
		return fmt.Sprintf("it is of commit %s, not of %s", cmp.Or(it.Commit, "none"), cmp.Or(want.Commit, "none"))
	case it.Source == want.Source, it.Source == source:
		return "ok"
	case it.Source.String() == want.Source.String():
		return fmt.Sprintf("it is from %s, but of another registry, kind or digest", it.Source)
	}
	return fmt.Sprintf("it is from %s, not from %s", it.Source, want.Source)
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

func skillLockCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "lock [DIR]",
		Short: "Write the skills.lock of a skill or plugin, for its author to sign",
		Long: `Write the skills.lock of a skill or plugin, for its author to sign: the hash of every file
in the directory. Whoever installs it then gets these files or an error, and later
versions only with the same key. Sign it with one of

  ssh-keygen -Y sign -n knack-skills -f KEY DIR/skills.lock
  minisign -Sm DIR/skills.lock   (and put minisign.pub into DIR first)

and publish skills.lock with skills.lock.sig or skills.lock.minisig. Knack shows the
name of an SSH key that is in allowed_signers (ssh-keygen's format) beside your
settings. Where gh is installed, it is asked what GitHub attests about a skills.lock.`,
		Example: "  knack skill lock ./my-plugin",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			dir, err := filepath.Abs(strings.Join(args, ""))
			if err != nil {
				return err
			}
			s, err := installer.Store(nil)
			if err != nil {
				return err
			}
			st, err := s.StageUnsigned(c.Context(), dir)
			if err != nil {
				return err
			}
			defer st.Close()
			for _, name := range st.Skipped {
				fmt.Fprintf(c.ErrOrStderr(), "left out: %s is a link that leads out of the directory\n", plain.Line(name))
			}
			data, err := st.Pack()
			if err != nil {
				return err
			}
			file := filepath.Join(dir, install.LockName)
			if err := outfile.Write(sources.Root("."), file, data, 0o644, true); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s has %s; sign it: knack help skill lock\n", plain.Line(file),
				plain.Count(len(st.Files), "file"))
			return nil
		},
	}
}

// lockedDiff compares a plugin or skill of the user's lock with its files.
func lockedDiff(id string) (*install.Store, install.Difference, error) {
	s, lock, err := userLock()
	if err != nil {
		return nil, install.Difference{}, err
	}
	it := lock.Item(id)
	if it == nil {
		return nil, install.Difference{}, &engine.Error{Err: fmt.Errorf("%s is not installed", plain.Line(id)),
			Hint: "knack skill verify"}
	}
	d, err := s.Diff(it, "")
	return s, d, err
}

func skillDiffCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "diff NAME",
		Short:   "Show how an installed plugin or skill differs from skills.lock",
		Example: "  knack skill diff tools@acme",
		Args:    exactly(1, "knack skill diff NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			_, d, err := lockedDiff(args[0])
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
			s, d, err := lockedDiff(args[0])
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
