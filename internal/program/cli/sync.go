package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/installer"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// syncFlags are those of `knack sync`.
type syncFlags struct{ check, offline, prune bool }

func syncCommand() *cobra.Command {
	var f syncFlags
	c := &cobra.Command{
		Use:   "sync",
		Short: "Install the skills and plugins that the project's lock names, and check them",
		Long: `Install the skills and plugins that the project's lock (.knack/skills.lock) names:
exactly the files that it records, or an error. What is missing is fetched, what will be
able to run is shown, and you are asked once. Nothing of it runs meanwhile. Skills, and
plugins of which you have another version, are installed for this project alone.

The lock is written by knack plugin add --project and knack skill add --project. A
source in the project is recorded by its path from the root. A source that only the
machine that added it has is named.

A file that was changed since it was installed is put back. With --prune, what the lock
named and names no longer is removed, unless it was changed. Skills that somebody wrote
into the project are never touched.

--check changes nothing, for CI: exit code 3 means that something differs from the lock.
A tag that was moved since it was locked is named, unless --offline is given.
--offline takes only what is on this machine: what was installed for you or for another
project, and sources in the project.

Addresses of the lock that are not those of a public https server are reached with your
own credentials, and only after a question, or with --yes.`,
		Example: `  git clone https://example.com/project.git && cd project && knack sync
  knack sync --yes
  knack sync --check --offline`,
		Args: noArguments,
	}
	c.Flags().BoolVar(&f.check, "check", false, "compare with the lock and change nothing; exit with 3 if anything differs")
	c.Flags().BoolVar(&f.offline, "offline", false, "fetch nothing: use what is on this machine")
	c.Flags().BoolVar(&f.prune, "prune", false, "also remove what the lock names no longer, unless it was changed")
	c.MarkFlagsMutuallyExclusive("check", "prune")
	resultJSON(c)
	return withInstaller(c, func(x *userInstaller, _ []string) error { return f.run(x) })
}

func (f syncFlags) run(x *userInstaller) error {
	if _, err := os.Lstat(x.ProjectLock()); errors.Is(err, fs.ErrNotExist) {
		// Without a lock there may be something to remove.
		if all, err := x.Locked(); err != nil || len(all) == 0 {
			return &engine.Error{Err: fmt.Errorf("there is no lock: %s", plain.Line(x.ProjectLock())),
				Hint: "knack plugin add SOURCE --project, or knack skill add SOURCE --project, writes it"}
		}
	}
	o := installer.SyncOptions{Offline: f.offline, Prune: f.prune, Reach: x.reach}
	if f.check {
		return f.checkOnly(x, o)
	}
	done, err := x.Sync(x.c.Context(), o)
	return errors.Join(err, x.showSync(done))
}

// reach asks whether to fetch from addresses of the lock that are not those of public servers.
func (x *userInstaller) reach(_ context.Context, addresses []string) (bool, error) {
	w := x.c.ErrOrStderr()
	fmt.Fprintln(w, "The lock names addresses that are reached with your own credentials:")
	for _, a := range addresses {
		fmt.Fprintf(w, "  %s\n", plain.Line(a))
	}
	if x.yes {
		return true, nil
	}
	if !isTerminal(x.c.InOrStdin()) {
		return false, nil // then they are not reached, and each entry says so
	}
	return confirm(x.c, "Reach them?", "knack sync --yes")
}

func (f syncFlags) checkOnly(x *userInstaller, o installer.SyncOptions) error {
	all, err := x.Locked()
	if err != nil {
		return err
	}
	if !f.offline {
		if err := x.Moved(x.c.Context(), all, o); err != nil {
			return err
		}
	}
	if err := x.showSync(installer.SyncReport{Entries: all}); err != nil {
		return err
	}
	bad := 0
	for _, e := range all {
		if e.State != installer.StateOK && !e.Extra {
			bad++
		}
	}
	if bad == 0 {
		return nil
	}
	return &engine.Error{Err: fmt.Errorf("%s from the project's lock", plain.Count(bad, "difference")), Hint: "knack sync",
		Exit: engine.ExitRefused}
}

// showSync prints the entries of the lock as they are.
func (x *userInstaller) showSync(done installer.SyncReport) error {
	x.clear()
	stderr := x.c.ErrOrStderr()
	for _, id := range done.Installed {
		fmt.Fprintf(stderr, "%s was installed\n", plain.Line(id))
		x.sayNeeds(id)
	}
	for _, id := range done.Removed {
		fmt.Fprintf(stderr, "%s was removed\n", plain.Line(id))
	}
	rows := [][]string{{"NAME", "STATE", "SOURCE"}}
	extra := false
	for _, e := range done.Entries {
		for _, note := range e.Notes {
			fmt.Fprintf(stderr, "%s: %s\n", plain.Line(e.ID), plain.Line(note))
		}
		extra = extra || e.Extra
		rows = append(rows, []string{e.ID, e.State, e.Source})
	}
	if wantsJSON(x.c) {
		return writeJSON(x.c.OutOrStdout(), done.Entries)
	}
	if len(rows) > 1 {
		writeTable(x.c.OutOrStdout(), rows)
	}
	if extra {
		fmt.Fprintln(stderr, "knack: hint: knack sync --prune removes what the lock does not name")
	}
	return nil
}
