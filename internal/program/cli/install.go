package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// userStore returns the user's store of plugins and skills.
func userStore() (*install.Store, error) {
	env := engine.Env(nil)
	if env.DataDir() == "" {
		return nil, engine.ErrNoState("plugins cannot be installed")
	}
	return install.User(env.DataDir(), env.ConfigDir()), nil
}

// userLock returns the user's store and what is installed in it.
func userLock() (*install.Store, *install.Lock, error) {
	s, err := userStore()
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

// An installer fetches plugins and skills, shows them and installs them. Its owner closes it.
type installer struct {
	c       *cobra.Command
	yes     bool
	keys    []install.Signer
	store   *install.Store
	lock    *install.Lock
	project *engine.Project
}

// newInstaller opens the user's store, and the project, whose settings say what is allowed.
func newInstaller(c *cobra.Command, f installFlags) (*installer, error) {
	x := &installer{c: c, yes: f.yes}
	for _, text := range f.key {
		key, err := install.ParseKey(text)
		if err != nil {
			return nil, &engine.Error{Err: err, Exit: engine.ExitUsage}
		}
		x.keys = append(x.keys, key)
	}
	var err error
	if x.store, x.lock, err = userLock(); err != nil {
		return nil, err
	}
	x.project, err = engine.Load(c.Context(), engine.Options{Version: version()})
	return x, err
}

func (x *installer) Close() error { return x.project.Close() }

// withInstaller adds the flags that all installing commands share, and makes the command call run with an installer.
func withInstaller(c *cobra.Command, run func(x *installer, args []string) error) *cobra.Command {
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
func updater(c *cobra.Command, all func(*install.Lock) []string,
	update func(x *installer, id string) error) *cobra.Command {
	rollback := c.Flags().Bool("rollback", false, "return to the version before the last update")
	return withInstaller(c, func(x *installer, args []string) error {
		if *rollback {
			if len(args) == 0 {
				return engine.Usagef(x.c.CommandPath()+" NAME --rollback", "--rollback needs a name")
			}
			update = (*installer).rollback
		}
		if len(args) == 0 {
			args = all(x.lock)
		}
		return each(args, func(id string) error { return update(x, id) })
	})
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

func (x *installer) rollback(id string) error {
	kind := x.c.Parent().CommandPath()
	if x.lock.Item(id) == nil {
		return &engine.Error{Err: errors.New("it is not installed"), Hint: kind + " list"}
	}
	it, err := x.store.Rollback(id)
	switch {
	case errors.Is(err, install.ErrNoEarlier):
		err = &engine.Error{Err: err, Hint: kind + " remove " + plain.Line(id) + ", then " + kind +
			" add with the version that you want, such as ADDRESS#COMMIT"}
	case err == nil:
		fmt.Fprintf(x.c.OutOrStdout(), "%s is the version of %s again\n", plain.Line(id), it.Time.Format("2006-01-02 15:04"))
	}
	return err
}

// progress returns a function that shows on a terminal how far a download is; nil: it is not a terminal.
func progress(w io.Writer) func(address string, got, total int64) {
	if f, ok := w.(*os.File); !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	var last time.Time
	return func(address string, got, total int64) {
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
}

// projectLock is the lock that the project shares.
func (x *installer) projectLock() string {
	return filepath.Join(x.project.Root(), ".knack", install.LockName)
}

// stage fetches a tree. id is what it will replace; "": that is not known yet.
func (x *installer) stage(t target, name string) (*install.Staged, error) {
	if err := x.project.Plugins().CheckSource(t.given.From); err != nil {
		return nil, &engine.Error{Err: err, Exit: engine.ExitRefused}
	}
	t.given.Keys = x.keys
	if it := x.lock.Item(cmp.Or(t.replaces, t.id)); it != nil {
		t.given.Known = it.Signers
	}
	x.store.Progress = progress(x.c.ErrOrStderr())
	st, err := x.store.Stage(x.c.Context(), t.given, name, t.entry)
	if x.store.Progress != nil {
		fmt.Fprint(x.c.ErrOrStderr(), "\r\x1b[K")
	}
	return st, signature(t.given.Source.String(), err)
}

// signature describes an error about what; a signature that does not fit is a refusal.
func signature(what string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s: %w", plain.Line(what), err)
	if bad := new(install.RefusedError); errors.As(err, &bad) {
		return &engine.Error{Err: err, Exit: engine.ExitRefused,
			Hint: "ask its author; --key KEY accepts a key that you have checked"}
	}
	return err
}

// maxDiffLines is how many lines of an update's difference are shown.
const maxDiffLines = 500

// install shows what was fetched, asks, and installs it. replaces is the name that it
// had before; "": the same. done is false if the user said no.
func (x *installer) install(st *install.Staged, id string, replaces string, page func() install.Page) (done bool,
	err error) {
	old := x.lock.Item(cmp.Or(replaces, id))
	if err := st.CheckSigner(old); err != nil {
		return false, signature(id, err)
	}
	stderr := x.c.ErrOrStderr()
	if old != nil && old.Tree == st.Tree {
		fmt.Fprintf(stderr, "%s is up to date\n", plain.Line(id))
		return true, x.store.Install(st, id) // repairs files that were changed
	} else if old != nil {
		d, err := x.store.Diff(old, st.Dir)
		if err != nil {
			return false, err
		}
		fmt.Fprintf(stderr, "compared with what is installed: %s\n", d.Drift)
		lines := strings.SplitAfter(d.Text, "\n")
		more := max(0, len(lines)-maxDiffLines)
		plain.Writer(stderr).Write([]byte(strings.Join(lines[:len(lines)-more], "")))
		if more > 0 {
			fmt.Fprintf(stderr, "… and %s\n", count(more, "more line"))
		}
		fmt.Fprintln(stderr)
	}
	page().Write(stderr, st, id)
	if len(st.Signers) > 0 && (old == nil || len(old.Signers) == 0) && len(x.keys) == 0 {
		fmt.Fprintln(stderr, "\nThis key is new here: compare it with what its author publishes. Updates must have the "+
			"same key.")
	}
	if !x.yes {
		hint := x.c.CommandPath() + " --yes installs what is shown"
		if ok, err := confirm(x.c, "\nInstall "+plain.Line(id)+"?", hint); err != nil || !ok {
			return false, err
		}
	}
	return true, x.store.Install(st, id)
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
	all := []outdatedJSON{}
	for _, id := range slices.Concat(install.IDs(lock.Plugins), install.IDs(lock.Skills)) {
		it := lock.Item(id)
		t, err := installedTarget(s, id, it)
		var d install.Drift
		if err == nil {
			d, err = s.Changes(c.Context(), it, t.given)
		}
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

// installedTarget is where an update of an installed item comes from.
func installedTarget(s *install.Store, id string, it *install.Item) (target, error) {
	name, market, ok := install.Split(id)
	if ok && it.From != nil {
		return listed(s, name, market, "SOURCE")
	}
	return target{given: install.Given{Source: it.Source, Typed: it.From == nil, From: it.From}, name: name, id: id}, nil
}
