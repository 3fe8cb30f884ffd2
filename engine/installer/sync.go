package installer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// A Locked is an entry of a project's lock, or of what was installed for the project, and how it is on this machine.
type Locked struct {
	ID     string `json:"id"`    // NAME@MARKETPLACE of a plugin, or the name of a skill
	State  string `json:"state"` // ok, or how it differs from the lock
	Source string `json:"source"`
	// Notes are what the user should know although it does not differ, such as a tag that was moved.
	Notes []string `json:"notes,omitempty"`
	// Extra reports that it was installed for the project, and the lock does not name it.
	Extra bool `json:"extra,omitempty"`
	// Foreign reports that it is of the lock of another program, skills-lock.json, which is only compared: its one hash
	// for each skill does not say which commit has it.
	Foreign bool `json:"foreign,omitempty"`

	want  *install.Item  // in the lock; nil: Extra or Foreign
	have  *install.Item  // on this machine; nil: it is not installed
	store *install.Store // that has it; otherwise that of the project
}

// StateOK is the State of an entry whose files are installed and unchanged.
const StateOK = "ok"

// SyncOptions say what Sync does.
type SyncOptions struct {
	Offline bool // nothing is fetched; what is installed for the user or another project is used
	Prune   bool // what the lock named and names no longer is removed, unless it was changed
	// Reach asks whether to fetch from addresses that are not those of a public https server, which the lock names. They
	// are reached with the user's own credentials. nil: they are not reached.
	Reach func(ctx context.Context, addresses []string) (bool, error)
}

// Locked compares the lock that the project shares with what is installed, without the network. An entry is satisfied by
// what is installed for the user, too. A signature of the lock that does not fit is an error.
func (x *Installer) Locked() ([]Locked, error) {
	if _, err := x.Store.VerifyLock(x.ProjectLock(), x.Keys); err != nil {
		return nil, Signature(x.ProjectLock(), err)
	}
	want, err := install.ReadLock(x.ProjectLock())
	if err != nil {
		return nil, err
	}
	mine, err := install.ReadLock(x.Store.Lock)
	if err != nil {
		return nil, err
	}
	here := x.Store.Project(x.Root)
	own, err := install.ReadLock(here.Lock)
	if err != nil {
		return nil, err
	}
	all := []Locked{}
	for _, id := range ids(want) {
		e := Locked{ID: id, want: want.Item(id), have: own.Item(id), store: here}
		e.Source = e.want.Source.String()
		if it := mine.Item(id); it != nil && it.Tree == e.want.Tree && (e.have == nil || e.have.Tree != e.want.Tree) {
			e.have, e.store = it, x.Store
		}
		e.State = e.state()
		all = append(all, e)
	}
	for _, id := range ids(own) {
		if want.Item(id) == nil {
			it := own.Item(id)
			all = append(all, Locked{ID: id, State: "the lock does not name it", Source: it.Source.String(), Extra: true,
				have: it, store: here})
		}
	}
	foreign, err := install.NPMSkills(x.Root)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(foreign)) {
		all = append(all, Locked{ID: name, State: foreign[name].State, Source: foreign[name].Source, Foreign: true})
	}
	return all, nil
}

// foreign is the error for an entry of the lock of another program.
func (e *Locked) foreign() error {
	hint := "add it again with the program that wrote " + install.NPMLockName
	if from := (install.NPMSkill{Source: e.Source}).Address(); from != "" {
		hint = fmt.Sprintf("knack skill add %s %s --project", plain.Line(from), plain.Line(e.ID))
	}
	return &engine.Error{Err: fmt.Errorf("%s: %s, says %s", plain.Line(e.ID), e.State, install.NPMLockName), Hint: hint}
}

func ids(l *install.Lock) []string {
	return slices.Concat(install.IDs(l.Plugins), install.IDs(l.Skills))
}

// state compares an entry with what is installed.
func (e *Locked) state() string {
	switch {
	case e.want.Files.Tree() != e.want.Tree:
		return "the lock contradicts itself: the hashes of its files are not those of its tree"
	case e.have == nil:
		return "not installed"
	case e.have.Tree != e.want.Tree:
		return "another version is installed"
	}
	drift, err := e.have.Files.Verify(e.store.Path(e.have))
	switch {
	case err != nil:
		return err.Error()
	case !drift.IsZero():
		return drift.String()
	}
	return StateOK
}

// Moved asks the sources of the entries whether a tag leads elsewhere than when it was locked, or whether the commit is
// gone, and adds a note to each such entry. A source that cannot be reached is a note, too.
func (x *Installer) Moved(ctx context.Context, all []Locked, o SyncOptions) error {
	reach, err := o.mayReach(ctx, all)
	if err != nil {
		return err
	}
	for i := range all {
		e := &all[i]
		if e.want == nil || e.want.Commit == "" || e.want.Source.Ref == "" {
			continue
		}
		given, err := restorable(e.want, x.Root)
		_, asked := asksToReach(e.want)
		if given.Typed = reach && asked; err != nil || given.Kind != plugin.Git {
			continue
		}
		at, tag, err := x.Store.Resolve(ctx, given)
		switch {
		case err != nil:
			e.Notes = append(e.Notes, "whether its tag was moved is not known: "+err.Error())
		case at == "":
			e.Notes = append(e.Notes, fmt.Sprintf("%s has no %s any more", given.URL, given.Ref))
		case tag && at != e.want.Commit:
			e.Notes = append(e.Notes, fmt.Sprintf("the tag %s of %s was moved: it is at %.12s, and the lock has %.12s",
				given.Ref, given.URL, at, e.want.Commit))
		}
	}
	return nil
}

// mayReach asks once about the addresses of entries that are not those of public servers.
func (o SyncOptions) mayReach(ctx context.Context, all []Locked) (bool, error) {
	asked := map[string]bool{}
	for _, e := range all {
		if src, asks := asksToReach(e.want); asks {
			asked[src.String()] = true
		}
	}
	if len(asked) == 0 || o.Reach == nil {
		return false, nil
	}
	return o.Reach(ctx, slices.Sorted(maps.Keys(asked)))
}

// asksToReach returns the source of an entry, and whether the user is asked before it is contacted, because it is not
// the address of a public server. The answer is for those entries alone.
func asksToReach(it *install.Item) (from plugin.Source, asks bool) {
	if it == nil {
		return from, false
	}
	if from = it.Source; from.Kind == plugin.Path && it.From != nil {
		from = *it.From
	}
	return from, !install.IsLocal(from) && from.Check() != nil
}

// restorable returns where an entry of a project's lock can be fetched. The error says why another machine cannot.
func restorable(it *install.Item, root string) (given install.Given, err error) {
	given = install.Given{Source: it.Source, From: it.From, Known: it.Signers}
	switch {
	case it.Source.Kind == plugin.Path && it.From != nil: // in its marketplace
		from, ok := install.OnMachine(*it.From, root)
		switch {
		case !ok:
			return given, fmt.Errorf("its marketplace is %s, which only the machine that added it has", it.From)
		case from.Kind == plugin.Path:
			given.Base, given.Typed = from.Path, true
		case from.Kind == plugin.Git:
			sub := given.Source.Path
			given.Source = from
			given.Source.Path = path.Join(from.Path, sub)
			if it.Market != "" {
				given.Source.SHA = it.Market
			}
		default:
			return given, fmt.Errorf("its marketplace is %s, from which it cannot be restored", it.From)
		}
	case install.IsLocal(it.Source):
		on, ok := install.OnMachine(it.Source, root)
		if !ok {
			return given, fmt.Errorf("its source is %s, which only the machine that added it has", it.Source)
		}
		given.Source, given.Typed = on, true
	case it.Source.Kind == plugin.Git && it.Commit != "":
		given.SHA = it.Commit
	case it.Source.Kind == plugin.NPM && it.Commit != "":
		given.Version = it.Commit
	}
	return given, nil
}

// A SyncReport is what a Sync did.
type SyncReport struct {
	Entries   []Locked // as they are afterwards
	Installed []string
	Removed   []string
}

// Sync installs for the project what its lock names and this machine does not have: exactly these files, or nothing. All
// that was fetched is one Offer, with one question. What was changed since it was installed is put back without a
// question, because these files were approved. Entries that could not be restored are in the error, the others are
// installed nevertheless.
func (x *Installer) Sync(ctx context.Context, o SyncOptions) (done SyncReport, err error) {
	all, err := x.Locked()
	if err != nil {
		return done, err
	}
	var errs []error
	for i := range all {
		if e := &all[i]; e.Extra && o.Prune {
			removed, err := x.prune(e)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", plain.Line(e.ID), err))
			} else if removed {
				done.Removed = append(done.Removed, e.ID)
			}
		}
	}
	missing := slices.DeleteFunc(slices.Clone(all), func(e Locked) bool { return e.Extra || e.State == StateOK })
	reach := false
	if !o.Offline {
		if reach, err = o.mayReach(ctx, missing); err != nil {
			return done, err
		}
	}
	offer := Offer{}
	var found []restored
	defer func() {
		for _, r := range found {
			r.st.Close()
		}
	}()
	for _, e := range missing {
		if e.Foreign {
			errs = append(errs, e.foreign())
			continue
		}
		r, err := x.restore(ctx, e, reach, o.Offline)
		if err != nil {
			errs = append(errs, named(e.ID, err))
			continue
		}
		found = append(found, r)
		if r.offer.Staged != nil {
			offer.Parts = append(offer.Parts, r.offer)
		}
	}
	yes := true
	if len(offer.Parts) > 0 {
		offer.ID = plain.Count(len(offer.Parts), "entry") + " of the project's " + install.LockName
		if x.Ask == nil {
			return done, engine.ErrCannot
		}
		if yes, err = x.Ask(ctx, offer); err != nil {
			return done, err
		}
	}
	for _, r := range found {
		if r.offer.Staged != nil && !yes {
			continue
		}
		if err := r.store.Install(r.st, r.id); err != nil {
			errs = append(errs, named(r.id, err))
			continue
		}
		done.Installed = append(done.Installed, r.id)
	}
	if done.Entries, err = x.Locked(); err != nil {
		errs = append(errs, err)
	}
	return done, errors.Join(errs...)
}

// named puts the name of an entry before an error, and keeps its hint and exit code.
func named(id string, err error) error {
	if e, ok := errors.AsType[*engine.Error](err); ok {
		return &engine.Error{Err: fmt.Errorf("%s: %w", plain.Line(id), e.Err), Hint: e.Hint, Exit: e.Exit}
	}
	return fmt.Errorf("%s: %w", plain.Line(id), err)
}

// prune removes what was installed for the project, unless somebody changed it.
func (x *Installer) prune(e *Locked) (removed bool, err error) {
	drift, err := e.have.Files.Verify(e.store.Path(e.have))
	if err != nil {
		return false, err
	}
	if !drift.IsZero() {
		return false, fmt.Errorf("it stays, because it was changed since it was installed (%s): %s", drift,
			e.store.Path(e.have))
	}
	return true, e.store.Remove(e.ID)
}

// A restored is the tree of an entry, not installed yet.
type restored struct {
	id    string
	st    *install.Staged
	store *install.Store
	offer Offer // without Staged: these files were approved before
}

// restore fetches the tree of an entry, and compares it with the lock.
func (x *Installer) restore(ctx context.Context, e Locked, reach, offline bool) (r restored, err error) {
	want := e.want
	if want.Files.Tree() != want.Tree {
		return r, &engine.Error{Err: errors.New(e.State), Exit: engine.ExitRefused,
			Hint: "git log -p " + plain.Line(x.ProjectLock()) + ": somebody edited it by hand"}
	}
	if err := x.allowedFrom(want, e.ID); err != nil {
		return r, err
	}
	name, _, isPlugin := install.Split(e.ID)
	given, rerr := restorable(want, x.Root)
	_, asked := asksToReach(want)
	given.Typed = given.Typed || reach && asked
	if dir := x.Store.Cached(want); dir != "" {
		given.Source, given.Base, given.Typed = plugin.Source{Kind: plugin.Path, Path: dir}, "", true
	} else if rerr != nil {
		return r, &engine.Error{Err: rerr, Hint: "whoever has it: knack " + kind(isPlugin) + " add ADDRESS --project"}
	} else if offline && !install.IsLocal(given.Source) {
		return r, &engine.Error{Err: fmt.Errorf("it is not on this machine, and comes from %s", want.Source),
			Hint: "knack sync, without --offline"}
	}
	given.Keys = x.Keys
	st, err := x.Store.Stage(ctx, given, name, want.Entry)
	if err != nil {
		return r, x.whyNot(ctx, given, want, isPlugin, Signature(given.Source.String(), err))
	}
	defer func() {
		if err != nil {
			st.Close()
		}
	}()
	if st.Tree != want.Tree {
		return r, &engine.Error{Err: fmt.Errorf("%s has other files than the lock records (%s): nothing of it was installed",
			want.Source, want.Files.Compare(st.Files)), Exit: engine.ExitRefused,
			Hint: "ask whoever locked it; knack " + kind(isPlugin) + " add --project records what is there now"}
	}
	if err := st.CheckSigner(want); err != nil {
		return r, Signature(e.ID, err)
	}
	st.Source, st.Commit, st.From, st.Market = want.Source, want.Commit, want.From, want.Market
	st.Item.Version = want.Version
	page := func() install.Page { return x.page(ctx, st, e.ID, "") }
	if !isPlugin {
		if _, page, err = asSkill(ctx, st, given, want.Source.String(), e.ID); err != nil {
			return r, err
		}
	} else if st.Plugin.IsEmpty() {
		return r, nothingUsed(ctx, st)
	}
	r = restored{id: e.ID, st: st, store: e.store}
	if e.have != nil && e.have.Tree == want.Tree {
		return r, nil
	}
	r.offer = Offer{ID: e.ID, Staged: st, NewKey: len(st.Signers) > 0 && len(x.Keys) == 0 &&
		(e.have == nil || len(e.have.Signers) == 0)}
	if e.have != nil {
		d, err := e.store.Diff(e.have, st.Dir)
		if err != nil {
			return r, err
		}
		r.offer.Changes = &d
	}
	r.offer.Page = page()
	return r, nil
}

func kind(isPlugin bool) string {
	if isPlugin {
		return "plugin"
	}
	return "skill"
}

// allowedFrom returns a refusal if the administrator does not allow an entry. What the lock says about its marketplace is
// the text of a stranger: where only some marketplaces are allowed, the user must have added it, and it must list the
// plugin with this source.
func (x *Installer) allowedFrom(it *install.Item, id string) error {
	err := x.allowed(it.From)
	if err != nil || it.From == nil || x.allowed(nil) == nil {
		return err
	}
	name, market, _ := install.Split(id)
	refuse := func(why string) error {
		return &engine.Error{Err: fmt.Errorf("the administrator allows only some marketplaces, and %s", why),
			Exit: engine.ExitRefused, Hint: "knack plugin add " + plain.Line(id)}
	}
	known, err := x.Store.Marketplaces()
	if err != nil {
		return err
	}
	m, ok := known[market]
	if !ok || m.Source != *it.From {
		return refuse("you have not added " + it.From.String())
	}
	list, err := x.Store.List(m)
	if err != nil {
		return err
	}
	entry, ok := list.Find(name)
	if !ok || entry.Source != it.Source {
		return refuse(it.From.String() + " does not list it with this source")
	}
	return nil
}

// whyNot explains why a locked commit could not be fetched, if its repository can still be reached.
func (x *Installer) whyNot(ctx context.Context, given install.Given, want *install.Item, isPlugin bool, err error) error {
	if given.Kind != plugin.Git || given.SHA == "" {
		return err
	}
	at, tag, rerr := x.Store.Resolve(ctx, given)
	if rerr != nil {
		if !given.Typed && given.Check() != nil {
			return &engine.Error{Err: err, Exit: engine.ExitRefused, Hint: "knack sync at a terminal asks whether to reach " +
				plain.Line(given.URL) + "; --yes agrees"}
		}
		return err
	}
	where := "its default branch is at"
	switch {
	case at == "":
		return fmt.Errorf("%s has neither the commit %.12s nor %s any more: %w", given.URL, given.SHA, given.Ref, err)
	case tag:
		where = "the tag " + given.Ref + " was moved to"
	case given.Ref != "":
		where = "the branch " + given.Ref + " is at"
	}
	if at == given.SHA {
		return err
	}
	add := "knack " + kind(isPlugin) + " add " + given.URL
	if given.Ref != "" {
		add += "#" + given.Ref
	}
	return &engine.Error{Err: fmt.Errorf("%s has no commit %.12s any more, %s %.12s: %w", plain.Line(given.URL), given.SHA,
		plain.Line(where), at, err), Hint: plain.Line(add) + " --project locks what is there now"}
}
