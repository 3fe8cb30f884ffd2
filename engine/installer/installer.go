// Package installer installs plugins and skills for a user: the flow that the command line, the commands of a session
// and Go hosts share. It fetches a source, checks it against what the administrator and the project's lock allow,
// describes all that it brings, asks one question, and records the answer with every file. Nothing that it fetches
// runs.
package installer

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// Rules say what may be installed. [engine.Plugins] are the rules of a project.
type Rules interface {
	// CheckSource returns an error if plugins from a marketplace are not allowed; nil: from no marketplace.
	CheckSource(marketplace *plugin.Source) error
	// NameTaken returns the ID of a plugin in use that has this name and another ID; "": there is none.
	NameTaken(name, id string) string
}

// An Installer installs for one user. It is used by one goroutine at a time; other processes may install meanwhile.
type Installer struct {
	Store *install.Store
	Rules Rules
	Root  string           // of the project whose lock says which versions are wanted; "": no project
	Keys  []install.Signer // one of them must have signed what is installed; nil: what is known counts
	// Known returns the source of a marketplace that the settings name; nil: none. A nil Known knows none.
	Known func(marketplace string) (*plugin.Source, error)
	// Claude and Pi are the directories of these programs, whose plugins Import uses; "": there is none.
	Claude, Pi string
	// User is where an update switches a renamed plugin on.
	User Scope
	// Ask shows an offer to the user and reports whether to install it. nil: nothing is installed, with
	// [engine.ErrCannot].
	Ask func(context.Context, Offer) (bool, error)
	// Tell is called with what the user may want to know: one line, escaped. nil: nobody is told.
	Tell func(line string)
}

// New returns the Installer for the project's user. ask is its Ask.
func New(p *engine.Project, ask func(context.Context, Offer) (bool, error)) (*Installer, error) {
	store, err := Store(p.Env())
	if err != nil {
		return nil, err
	}
	return &Installer{Store: store, Rules: p.Plugins(), Root: p.Root(), Known: p.Plugins().Marketplace,
		Claude: p.Env().ClaudeDir(), Pi: p.Env().PiDir(), User: UserScope(p.Env()), Ask: ask}, nil
}

// Store returns the user's store of plugins and skills.
func Store(env engine.Env) (*install.Store, error) {
	if env.DataDir() == "" {
		return nil, engine.ErrNoState("plugins cannot be installed")
	}
	return install.User(env.DataDir(), env.ConfigDir()), nil
}

// An Offer is what the user is asked about. Its files are there until the answer.
type Offer struct {
	ID      string // NAME@MARKETPLACE of a plugin, or the name of a skill
	Page    install.Page
	Staged  *install.Staged
	Changes *install.Difference // to what is installed; nil: nothing is
	NewKey  bool                // who signed it was not known before: the user compares the key with the published one
	// Parts are several offers that are answered together; then only ID is set. nil: this is one.
	Parts []Offer
}

// maxDiffLines is how many lines of an update's difference are shown.
const maxDiffLines = 500

// Write writes the offer for people to read. What others wrote is escaped.
func (o Offer) Write(w io.Writer) {
	if len(o.Parts) > 0 {
		o.writeParts(w)
		return
	}
	if o.Changes != nil {
		fmt.Fprintf(w, "compared with what is installed: %s\n", o.Changes.Drift)
		lines := strings.SplitAfter(o.Changes.Text, "\n")
		more := max(0, len(lines)-maxDiffLines)
		plain.Writer(w).Write([]byte(strings.Join(lines[:len(lines)-more], "")))
		if more > 0 {
			fmt.Fprintf(w, "… and %s\n", plain.Count(more, "more line"))
		}
		fmt.Fprintln(w)
	}
	o.Page.Write(w, o.Staged, o.ID)
	if o.NewKey {
		fmt.Fprintln(w, "\nThis key is new here: compare it with what its author publishes. Updates must have the "+
			"same key.")
	}
}

// writeParts writes what can run of all parts, and then each of them.
func (o Offer) writeParts(w io.Writer) {
	none := true
	for _, part := range o.Parts {
		for _, r := range part.Page.Runs {
			if none {
				fmt.Fprintln(w, "What will be able to run, in the sandbox:")
				none = false
			}
			first, more, _ := strings.Cut(strings.TrimSpace(r.Text), "\n")
			if more != "" {
				first += " …"
			}
			fmt.Fprintf(w, "  %s: %s: %s\n", plain.Line(part.ID), plain.Line(r.What), plain.Line(first))
		}
	}
	if none {
		fmt.Fprintln(w, "None of it declares a hook, a server or a command.")
	}
	for _, part := range o.Parts {
		fmt.Fprintln(w)
		part.Write(w)
	}
}

// AskPerson returns an Ask that puts the question to a session's user, such as one at a screen or behind a protocol.
func AskPerson(ask func(context.Context, engine.Question) (engine.Answer, error)) func(context.Context, Offer) (bool,
	error) {
	return func(ctx context.Context, o Offer) (bool, error) {
		var text strings.Builder
		o.Write(&text)
		a, err := ask(ctx, engine.Question{Title: "Install " + plain.Line(o.ID) + "?", Text: text.String(),
			Asker: engine.AskerCommand, Options: []engine.Option{{ID: engine.OptionYes, Label: "yes", Allow: true},
				{ID: engine.OptionNo, Label: "no"}}})
		return err == nil && !a.Declined && a.Option == engine.OptionYes, err
	}
}

// Plugin installs what the user typed: NAME@MARKETPLACE, a directory, an archive, an address, or npm:PACKAGE, and
// switches it on in scope. The ID is "" if the user said no.
func (x *Installer) Plugin(ctx context.Context, typed string, scope Scope) (id string, err error) {
	if err := scope.check(); err != nil {
		return "", err
	}
	t, err := x.find(typed)
	if err != nil {
		return "", err
	}
	t.relock = scope.shares
	if id, err = x.plugin(ctx, t); err != nil || id == "" {
		return "", err
	}
	if err := scope.Set(id, json.RawMessage("true")); err != nil {
		return "", err
	}
	return id, x.share(x.Store, id, scope)
}

// Skill installs a skill from what the user typed: a directory, an archive, an address of one or of a repository, or of
// a site with an index. want names the skill in it; "": there is one. In UserScope it is there in all projects, in
// ProjectScope in this one, whose lock then names it. The name is "" if the user said no.
func (x *Installer) Skill(ctx context.Context, typed, want string, scope Scope) (name string, err error) {
	if err := scope.check(); err != nil {
		return "", err
	}
	given, err := skillSource(typed, want)
	if err != nil {
		return "", err
	}
	y := *x
	y.Store = scope.store(x.Store, false)
	if name, err = y.skill(ctx, given, typed, ""); err != nil || name == "" {
		return "", err
	}
	return name, x.share(y.Store, name, scope)
}

// share records what was installed in the lock of a project, and says so if others cannot restore it.
func (x *Installer) share(store *install.Store, id string, scope Scope) error {
	if !scope.shares {
		return nil
	}
	if err := store.Share(id, scope.root); err != nil {
		return err
	}
	lock, err := install.ReadLock(install.SharedLock(scope.root))
	if err != nil {
		return err
	}
	if it := lock.Item(id); it != nil {
		if _, err := restorable(it, scope.root); err != nil {
			x.tell(fmt.Sprintf("only this machine can restore %s: %v", plain.Line(id), err))
			x.tell("knack: hint: put it into the project, or add it from a repository: knack help sync")
		}
	}
	return nil
}

// Import uses a plugin where another program has installed it, and switches it on for the user. done is false if the
// user said no.
func (x *Installer) Import(ctx context.Context, id string, f install.Found) (done bool, err error) {
	if done, err = x.inPlace(ctx, id, f); err == nil && done {
		err = x.User.Set(id, json.RawMessage("true"))
	}
	return done, err
}

// Update fetches an installed plugin or skill again, and returns the ID that it has then; "": the user said no. A
// plugin that its marketplace has renamed is followed.
func (x *Installer) Update(ctx context.Context, id string) (now string, err error) {
	lock, err := install.ReadLock(x.Store.Lock)
	if err != nil {
		return "", err
	}
	it := lock.Item(id)
	switch {
	case it == nil:
		return "", errors.New("it is not installed")
	case lock.Skills[id] != nil:
		return x.skill(ctx, install.Given{Source: it.Source, Typed: true}, id, id)
	case it.Place != "":
		return x.updateInPlace(ctx, id)
	}
	t, err := x.installed(id, it)
	if err != nil {
		return "", err
	}
	if t.id != id {
		t.replaces = id
		x.tell(plain.Line(id) + " is now called " + plain.Line(t.id))
	}
	if now, err = x.plugin(ctx, t); err != nil || now == "" || now == id {
		return now, err
	}
	if err := x.User.Set(now, json.RawMessage("true")); err != nil {
		return "", err
	}
	if err := x.User.Set(id, nil); err != nil {
		return "", err
	}
	return now, x.Store.Remove(id)
}

// updateInPlace shows the version that another program has now.
func (x *Installer) updateInPlace(ctx context.Context, id string) (string, error) {
	found, err := install.FindOthers(x.Claude, x.Pi)
	if err == nil && found[id].Dir == "" {
		err = &engine.Error{Err: errors.New("it was removed by " + install.Program(id)),
			Hint: "knack plugin remove " + plain.Line(id)}
	}
	if err != nil {
		return "", err
	}
	if done, err := x.inPlace(ctx, id, found[id]); err != nil || !done {
		return "", err
	}
	return id, nil
}

// Outdated compares an installed plugin or skill with its source.
func (x *Installer) Outdated(ctx context.Context, id string, it *install.Item) (install.Drift, error) {
	t, err := x.installed(id, it)
	if err != nil {
		return install.Drift{}, err
	}
	return x.Store.Changes(ctx, it, t.given)
}

// Marketplace fetches the list of a marketplace, one of the setting extraKnownMarketplaces or what the user typed, and
// adds it.
func (x *Installer) Marketplace(ctx context.Context, typed string) (*plugin.Marketplace, error) {
	given, err := x.marketplaceSource(typed)
	if err != nil {
		return nil, err
	}
	return x.marketplace(ctx, given)
}

// UpdateMarketplace fetches the list of a marketplace again.
func (x *Installer) UpdateMarketplace(ctx context.Context, m install.KnownMarketplace) (*plugin.Marketplace, error) {
	return x.marketplace(ctx, install.Given{Source: m.Source, Typed: m.Typed})
}

func (x *Installer) marketplace(ctx context.Context, given install.Given) (*plugin.Marketplace, error) {
	if err := x.allowed(&given.Source); err != nil {
		return nil, err
	}
	m, err := x.Store.AddMarketplace(ctx, given, install.CheckMarketplaceName)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", plain.Line(given.Source.String()), err)
	}
	return m, nil
}

// allowed returns a refusal if the administrator does not allow plugins from a marketplace.
func (x *Installer) allowed(marketplace *plugin.Source) error {
	if err := x.Rules.CheckSource(marketplace); err != nil {
		return &engine.Error{Err: err, Exit: engine.ExitRefused}
	}
	return nil
}

func (x *Installer) tell(line string) {
	if x.Tell != nil {
		x.Tell(line)
	}
}

// ProjectLock is the lock that the project shares.
func (x *Installer) ProjectLock() string { return install.SharedLock(x.Root) }

// plugin fetches a plugin, shows it, asks, and installs it. The result is "" if the user said no.
func (x *Installer) plugin(ctx context.Context, t target) (string, error) {
	pinned := &install.Lock{}
	if x.Root != "" && !t.relock {
		var err error
		if pinned, err = install.ReadLock(x.ProjectLock()); err != nil {
			return "", err
		}
	}
	want := pinned.Plugins[t.id]
	if want != nil && want.Commit != "" {
		switch t.given.Kind {
		case plugin.Git:
			t.given.SHA = want.Commit
		case plugin.NPM:
			t.given.Version = want.Commit
		}
	}
	st, err := x.stage(ctx, t, t.name)
	if err != nil {
		return "", err
	}
	defer st.Close()
	if st.Plugin.IsEmpty() {
		return "", nothingUsed(ctx, st)
	}
	id := cmp.Or(t.id, st.Plugin.Name+"@direct")
	if want == nil {
		want = pinned.Plugins[id]
	}
	if want != nil && want.Tree != st.Tree {
		return "", &engine.Error{Err: fmt.Errorf("%s has other files than %s records", plain.Line(id),
			plain.Line(x.ProjectLock())), Exit: engine.ExitRefused,
			Hint: "knack sync installs what it records; knack plugin add --project records what is there now"}
	}
	done, err := x.install(ctx, st, id, t.replaces, func() install.Page {
		page := x.page(ctx, st, id, t.replaces)
		if want != nil && want.Commit != "" {
			page.PinnedBy = x.ProjectLock()
		}
		return page
	})
	if err != nil || !done {
		return "", err
	}
	return id, nil
}

// skill fetches the skill that was typed, shows it, asks, and installs it. want is the name that it must have; "": any.
// The result is "" if the user said no.
func (x *Installer) skill(ctx context.Context, given install.Given, typed, want string) (string, error) {
	st, err := x.stage(ctx, target{given: given, id: want}, "skill")
	if err != nil {
		return "", err
	}
	defer st.Close()
	name, page, err := asSkill(ctx, st, given, typed, want)
	if err != nil {
		return "", err
	}
	done, err := x.install(ctx, st, name, "", page)
	if err != nil || !done {
		return "", err
	}
	return name, nil
}

// asSkill makes a fetched tree that of a skill, and returns the skill's name. typed is what the user typed for it, want
// the name that it must have; "": any.
func asSkill(ctx context.Context, st *install.Staged, given install.Given, typed, want string) (name string,
	page func() install.Page, err error) {
	k, problems := knack.Check(ctx, st.Dir)
	if k == nil {
		return "", nil, noSkill(st.Dir, typed)
	}
	name = cmp.Or(k.Label, want, placeName(given))
	if !plugin.ValidName(name) {
		return "", nil, fmt.Errorf("its name %q cannot be used", plain.Line(name))
	}
	if want != "" && name != want {
		return "", nil, fmt.Errorf("it is now called %s: knack skill add installs it", plain.Line(name))
	}
	st.Plugin = &plugin.Plugin{Description: k.Description, Skills: []plugin.Place{{Path: ".", Name: name,
		Fixed: true}}}
	return name, func() install.Page {
		page := install.Describe(ctx, st.Plugin, st.Dir)
		page.Problems = slices.DeleteFunc(problems, func(x knack.Problem) bool {
			return x.Severity != knack.Error || // its directory is a temporary one
				x.Code == knack.CodeNameDirMismatch || x.Code == knack.CodeNameMissing
		})
		return page
	}, nil
}

// inPlace shows a plugin that another program has installed, asks, and records it.
func (x *Installer) inPlace(ctx context.Context, id string, f install.Found) (done bool, err error) {
	if err := x.allowed(f.From); err != nil {
		return false, err
	}
	name, _, _ := install.Split(id)
	st, err := x.Store.StageInPlace(ctx, f, name, x.Keys)
	if err != nil {
		return false, Signature(id, err)
	}
	defer st.Close()
	if st.Plugin.IsEmpty() && len(st.Plugin.Extensions) > 0 {
		return false, nothingUsed(ctx, st)
	}
	return x.install(ctx, st, id, "", func() install.Page { return x.page(ctx, st, id, "") })
}

// stage fetches a tree. name is what it is called if it does not say it.
func (x *Installer) stage(ctx context.Context, t target, name string) (*install.Staged, error) {
	if err := x.allowed(t.given.From); err != nil {
		return nil, err
	}
	lock, err := install.ReadLock(x.Store.Lock)
	if err != nil {
		return nil, err
	}
	t.given.Keys = x.Keys
	if it := lock.Item(cmp.Or(t.replaces, t.id)); it != nil {
		t.given.Known = it.Signers
	}
	st, err := x.Store.Stage(ctx, t.given, name, t.entry)
	return st, Signature(t.given.Source.String(), err)
}

// Signature describes an error about what; a signature that does not fit is a refusal.
func Signature(what string, err error) error {
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

// install asks about what was fetched, and installs it. replaces is the name that it had before; "": the same. done is
// false if the user said no.
func (x *Installer) install(ctx context.Context, st *install.Staged, id, replaces string,
	page func() install.Page) (done bool, err error) {
	lock, err := install.ReadLock(x.Store.Lock)
	if err != nil {
		return false, err
	}
	old := lock.Item(cmp.Or(replaces, id))
	if err := st.CheckSigner(old); err != nil {
		return false, Signature(id, err)
	}
	o := Offer{ID: id, Staged: st}
	switch {
	case old != nil && old.Tree == st.Tree:
		x.tell(plain.Line(id) + " is up to date")
		return true, x.Store.Install(st, id) // repairs files that were changed
	case old != nil:
		d, err := x.Store.Diff(old, st.Dir)
		if err != nil {
			return false, err
		}
		o.Changes = &d
	}
	o.Page = page()
	o.NewKey = len(st.Signers) > 0 && (old == nil || len(old.Signers) == 0) && len(x.Keys) == 0
	if x.Ask == nil {
		return false, engine.ErrCannot
	}
	if ok, err := x.Ask(ctx, o); err != nil || !ok {
		return false, err
	}
	return true, x.Store.Install(st, id)
}

// page describes a plugin that will be installed as id, in place of replaces.
func (x *Installer) page(ctx context.Context, st *install.Staged, id, replaces string) install.Page {
	p := install.Describe(ctx, st.Plugin, st.Dir)
	if other := x.Rules.NameTaken(st.Plugin.Name, id); other != "" && other != replaces {
		p.Problems = append(p.Problems, knack.Problem{Code: knack.CodeNameCollision, Severity: knack.Warn,
			Path: st.Plugin.Manifest, Message: fmt.Sprintf("its manifest has the name %s, and so has %s, which is installed: "+
				"only one of them is used", st.Plugin.Name, other)})
	}
	return p
}
