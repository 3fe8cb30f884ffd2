package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/installer"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// userLock returns the user's store and what is installed in it.
func userLock() (*install.Store, *install.Lock, error) {
	s, err := installer.Store(nil)
	if err != nil {
		return nil, nil, err
	}
	lock, err := install.ReadLock(s.Lock)
	return s, lock, err
}

// installFlags are those of the commands that install something.
type installFlags struct {
	yes bool
	key []string
}

func (f *installFlags) register(c *cobra.Command) {
	c.Flags().BoolVarP(&f.yes, "yes", "y", false, "install without being asked")
	c.Flags().StringArrayVar(&f.key, "key", nil,
		"the public `KEY` of minisign or SSH that must have signed it, or a file with it")
}

// A userInstaller installs plugins and skills for the user who typed a command. Its owner closes it.
type userInstaller struct {
	*installer.Installer
	c       *cobra.Command
	lock    *install.Lock
	project *engine.Project
	yes     bool   // without being asked
	clear   func() // removes the progress that is shown
}

// newInstaller opens the user's store, and the project, whose settings say what is allowed.
func newInstaller(c *cobra.Command, f installFlags) (x *userInstaller, err error) {
	x = &userInstaller{c: c, yes: f.yes}
	var keys []install.Signer
	for _, text := range f.key {
		key, err := install.ParseKey(text)
		if err != nil {
			return nil, &engine.Error{Err: err, Exit: engine.ExitUsage}
		}
		keys = append(keys, key)
	}
	if _, x.lock, err = userLock(); err != nil {
		return nil, err
	}
	if x.project, err = engine.Load(c.Context(), engine.Options{Version: version()}); err != nil {
		return nil, err
	}
	stderr := c.ErrOrStderr()
	var shown func(address string, got, total int64)
	shown, x.clear = progress(stderr)
	x.Installer, err = installer.New(x.project, func(_ context.Context, o installer.Offer) (bool, error) {
		x.clear()
		o.Write(stderr)
		if f.yes {
			return true, nil
		}
		return confirm(c, "\nInstall "+plain.Line(o.ID)+"?", c.CommandPath()+" --yes installs what is shown")
	})
	if err != nil {
		return nil, errors.Join(err, x.project.Close())
	}
	x.Keys, x.Store.Progress = keys, shown
	x.Tell = func(line string) {
		x.clear()
		fmt.Fprintln(stderr, line)
	}
	return x, nil
}

func (x *userInstaller) Close() error {
	x.clear()
	return x.project.Close()
}

// withInstaller adds the flags that all installing commands share, and makes the command call run with an installer.
func withInstaller(c *cobra.Command, run func(x *userInstaller, args []string) error) *cobra.Command {
	var flags installFlags
	flags.register(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		x, err := newInstaller(c, flags)
		if err != nil {
			return err
		}
		defer x.Close()
		return run(x, args)
	}
	return c
}

// updater completes a command that fetches again what is installed: all, or what is named.
func updater(c *cobra.Command, all func(*install.Lock) map[string]*install.Item) *cobra.Command {
	rollback := c.Flags().Bool("rollback", false, "return to the version before the last update")
	return withInstaller(c, func(x *userInstaller, args []string) error {
		update := x.update
		if *rollback {
			if len(args) == 0 {
				return engine.Usagef(x.c.CommandPath()+" NAME --rollback", "--rollback needs a name")
			}
			update = x.rollback
		}
		if len(args) == 0 {
			args = install.IDs(all(x.lock))
		}
		return each(args, func(id string) error {
			if all(x.lock)[id] == nil {
				return &engine.Error{Err: errors.New("it is not installed"), Hint: x.c.Parent().CommandPath() + " list"}
			}
			return update(id)
		})
	})
}

func (x *userInstaller) update(id string) error {
	now, err := x.Update(x.c.Context(), id)
	if err == nil && now != "" && x.lock.Skills[id] != nil {
		fmt.Fprintf(x.c.OutOrStdout(), "the skill %s is installed\n", plain.Line(now))
	}
	return err
}

// each calls f with each name and joins the errors, with the names.
func each(names []string, f func(name string) error) error {
	var errs []error
	for _, name := range names {
		if err := f(name); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", plain.Line(name), err))
		}
	}
	return errors.Join(errs...)
}

func (x *userInstaller) rollback(id string) error {
	kind := x.c.Parent().CommandPath()
	it, err := x.Store.Rollback(id)
	switch {
	case errors.Is(err, install.ErrNoEarlier):
		err = &engine.Error{Err: err, Hint: kind + " remove " + plain.Line(id) + ", then " + kind +
			" add with the version that you want, such as ADDRESS#COMMIT"}
	case err == nil:
		fmt.Fprintf(x.c.OutOrStdout(), "%s is the version of %s again\n", plain.Line(id), it.Time.Format("2006-01-02 15:04"))
	}
	return err
}

// progress returns a func that shows on a terminal how far a download is, nil: it is not a terminal, and one that
// removes what it shows.
func progress(w io.Writer) (show func(address string, got, total int64), clear func()) {
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return nil, func() {}
	}
	var last time.Time
	show = func(address string, got, total int64) {
		if done := got == total; !done && time.Since(last) < time.Second/5 {
			return
		}
		last = time.Now()
		of := ""
		if total > 0 {
			of = fmt.Sprintf(" of %.1f MB", float64(total)/1e6)
		}
		fmt.Fprintf(w, "\r%s: %.1f MB%s\x1b[K", plain.Line(address), float64(got)/1e6, of)
	}
	return show, func() {
		if !last.IsZero() {
			fmt.Fprint(w, "\r\x1b[K")
			last = time.Time{}
		}
	}
}

// outdatedJSON is an installed skill or plugin as `skill list --outdated --json` prints it.
type outdatedJSON struct {
	ID     string `json:"id"`
	State  string `json:"state"` // how the source differs, or why that is not known
	Source string `json:"source"`
}

// listOutdated fetches the sources of what is installed again, and lists those that differ.
func listOutdated(c *cobra.Command, asJSON bool) error {
	s, lock, err := userLock()
	if err != nil {
		return err
	}
	sources := installer.Installer{Store: s}
	all := []outdatedJSON{}
	for _, id := range slices.Concat(install.IDs(lock.Plugins), install.IDs(lock.Skills)) {
		it := lock.Item(id)
		d, err := sources.Outdated(c.Context(), id, it)
		x := outdatedJSON{ID: id, State: d.String(), Source: it.Source.String()}
		if err != nil {
			x.State = "not known: " + plain.Line(err.Error())
		} else if d.IsZero() {
			continue
		}
		all = append(all, x)
	}
	if asJSON {
		return writeJSON(c.OutOrStdout(), all)
	}
	if len(all) == 0 {
		fmt.Fprintln(c.ErrOrStderr(), "everything that is installed is up to date")
		return nil
	}
	rows := [][]string{{"NAME", "STATE", "SOURCE"}}
	for _, x := range all {
		rows = append(rows, []string{x.ID, x.State, x.Source})
	}
	writeTable(c.OutOrStdout(), rows)
	return nil
}
