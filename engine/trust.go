package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine/project/trust"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/sources"
)

// openTrust reads what the user has approved in the project that contains dir. If once is set, the
// project is trusted while the program runs. parts are those of the program.
func openTrust(env Env, dir string, once bool, parts []Part) (*trust.Project, error) {
	p, err := trust.Open(env.StateDir()).Project(sources.Root(dir))
	if err != nil {
		return nil, &Error{Err: fmt.Errorf("the list of approvals cannot be read: %w", err),
			Hint: "knack trust --revoke starts a new one"}
	}
	p.Bundled = bundledNames(parts)
	if once {
		p.Once()
	}
	return p, nil
}

// trustOf returns what the user approved in the project that has a file: p's own, or that of an added directory.
func trustOf(p *Project, file string) *trust.Project {
	if len(p.addedTrust) == 0 {
		return p.trust
	}
	file = realPath(file)
	added := slices.IndexFunc(p.addedTrust, func(t *trust.Project) bool { return subpath.Contains(t.Root(), file) })
	if added < 0 || subpath.Contains(p.trust.Root(), file) {
		return p.trust
	}
	return p.addedTrust[added]
}

// inAdded names the directory to trust in a problem of an added directory.
func inAdded(p *Project, t *trust.Project, err error) error {
	if problem, ok := err.(knack.Problem); ok && t != p.trust {
		problem.Hint = "knack trust " + plain.Line(t.Root())
		return problem
	}
	return err
}

// A TrustItem is a part of a project that needs the user's approval.
type TrustItem = trust.Item

// Untrusted lists the items that can be approved and that are not yet approved or have changed since.
// The error reports what could not be read; the list is valid even then.
func (p *Project) Untrusted(ctx context.Context) ([]TrustItem, error) {
	items, err := p.trust.Scan(ctx, p.dir, false)
	return openItems(items), err
}

// WriteItems writes, for people to read, what items would load.
func (p *Project) WriteItems(w io.Writer, items []TrustItem) { p.trust.Write(w, items, nil) }

// NeedsTrust reports whether the project contains something that is ignored until it is trusted. It is
// cheaper than Untrusted.
func (e *Engine) NeedsTrust() bool {
	return slices.ContainsFunc(problemsOfFiles(e.Project(), e.Catalog()), needsTrust)
}

// Trusted reports whether the user trusts the folder: git and other programs follow its configuration, and hooks of the
// user run outside the sandbox.
func (e *Engine) Trusted() bool { return e.Project().trust.Trusted() }

// needsTrust reports whether trusting the project would resolve a problem.
func needsTrust(p knack.Problem) bool {
	return p.Code == knack.CodeUntrusted || p.Code == knack.CodeChanged
}

// A TrustReport lists what a directory contains that needs the user's approval, and what was approved.
type TrustReport struct {
	Root    string      `json:"root"`
	Trusted bool        `json:"trusted"` // the folder, whose configuration git and other programs follow
	Items   []TrustItem `json:"items"`
	Rules   []string    `json:"rules"` // stored by the answer "always"
	Unread  error       `json:"-"`     // what could not be read; the rest is valid even then

	approvals *trust.Project
}

// maxPrints is how many items Content tells apart: it must fit into an argument of a program.
const maxPrints = 4000

// Content describes what the report lists, for a trust that is only for that: see [TrustReport.Within].
func (r TrustReport) Content() string {
	prints := r.prints()
	if len(prints) <= maxPrints {
		return strings.Join(prints, ",")
	}
	sum := sha256.Sum256([]byte(strings.Join(prints, ",")))
	return hex.EncodeToString(sum[:])
}

// Within reports whether the report lists nothing but what another one did, whose Content this is: of the same directory
// earlier, or of one from which this is a copy, a worktree or a part. Of more than 4,000 items, all must be there.
func (r TrustReport) Within(content string) bool {
	known := map[string]bool{}
	for p := range strings.SplitSeq(content, ",") {
		known[p] = true
	}
	return r.Content() == content || !slices.ContainsFunc(r.prints(), func(p string) bool { return !known[p] })
}

// prints returns what tells the items apart from others, wherever they lie.
func (r TrustReport) prints() (prints []string) {
	for _, it := range r.Items {
		sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %s %q\n", it.Kind, path.Base(it.Path), it.Hash, it.Target))
		prints = append(prints, hex.EncodeToString(sum[:12]))
	}
	slices.Sort(prints)
	return slices.Compact(prints)
}

// TrustReport reads what the directory contains now, which may be more than what was there when p was loaded.
func (p *Project) TrustReport(ctx context.Context) (TrustReport, error) {
	t, err := openTrust(p.options.Env, p.dir, p.options.Trust, p.options.Parts)
	if err != nil {
		return TrustReport{}, err
	}
	return trustReport(ctx, p.options.Env, t, p.dir, false)
}

// SkillDiff shows what changed in a skill of the project that contains dir since the user approved it; "": nothing is
// known.
func SkillDiff(env Env, dir string, k *knack.Skill) (string, error) {
	t, err := openTrust(env, dir, false, nil)
	if err != nil {
		return "", err
	}
	return t.SkillDiff(k)
}

// ReadTrust reports on a directory that is not open, for a program with parts, because skills of the project may take
// the place of theirs. links: also follow links that lead out of the project.
func ReadTrust(ctx context.Context, env Env, dir string, links bool, parts []Part) (TrustReport, error) {
	t, err := openTrust(env, dir, false, parts)
	if err != nil {
		return TrustReport{}, err
	}
	return trustReport(ctx, env, t, dir, links)
}

func trustReport(ctx context.Context, env Env, t *trust.Project, dir string, links bool) (TrustReport, error) {
	r := TrustReport{Root: t.Root(), Trusted: t.Trusted(), approvals: t}
	r.Items, r.Unread = t.Scan(ctx, dir, links)
	own := userSkillDirs(ctx, env, dir)
	r.Items = slices.DeleteFunc(r.Items, func(it TrustItem) bool {
		return it.Kind == trust.Skill && it.Refused != "" && it.Target != "" &&
			slices.ContainsFunc(own, func(dir string) bool { return subpath.Contains(dir, it.Target) && dir != it.Target })
	})
	rules, err := t.KeptRules()
	r.Rules = rules
	return r, err
}

// userSkillDirs returns where the user's and the administrator's skills are, by their real paths. A link there needs no
// approval: those skills are used without it.
func userSkillDirs(ctx context.Context, env Env, dir string) (dirs []string) {
	o := sources.FromEnv(env.Get)
	o.Order = []knack.SourceKind{knack.Managed, knack.User}
	for _, s := range sources.Default(ctx, dir, o) {
		if f, ok := s.(*knack.Folder); ok {
			if real, err := filepath.EvalSymlinks(f.Path); err == nil {
				dirs = append(dirs, real)
			}
		}
	}
	return dirs
}

// Approve records items of the report as they were shown, bound to their content, and the folder itself, whose
// configuration git and other programs follow. A project that is open takes notice with [Engine.Trust].
func (r TrustReport) Approve(items ...TrustItem) error { return r.approvals.Approve(items...) }

// TrustFiles returns the files that say what the user has approved in the project that contains a directory; whoever
// shows the project reads it again when they change.
func TrustFiles(env Env, dir string) []string {
	t, err := trust.Open(env.StateDir()).Project(sources.Root(dir))
	if err != nil {
		return nil
	}
	return t.Files()
}

// FolderTrusted reports whether the user trusts the project that contains a directory.
func FolderTrusted(env Env, dir string) (bool, error) {
	t, err := openTrust(env, dir, false, nil)
	return err == nil && t.Trusted(), err
}

// RevokeTrust withdraws all approvals in the project that contains dir, and the rules kept for it, and returns the
// project's root. It needs no record that can be read.
func RevokeTrust(env Env, dir string) (root string, err error) {
	t, err := trust.Open(env.StateDir()).Project(sources.Root(dir))
	if t == nil {
		return "", err
	}
	return t.Root(), t.Revoke()
}

// MarshalJSON writes what programs read: the report, and for each item what changed since it was approved.
func (r TrustReport) MarshalJSON() ([]byte, error) {
	type item struct {
		TrustItem
		Diff string `json:"diff,omitempty"`
	}
	items := make([]item, len(r.Items))
	for i, it := range r.Items {
		items[i] = item{it, r.Diff(it)}
	}
	type fields TrustReport
	return json.Marshal(struct {
		fields
		Items []item `json:"items"`
	}{fields(r), items})
}

// Open lists the items that can be approved and are not.
func (r TrustReport) Open() []TrustItem { return openItems(slices.Clone(r.Items)) }

// Diff shows what changed in an item since it was approved; "": nothing is known.
func (r TrustReport) Diff(it TrustItem) string { return r.approvals.Diff(it) }

// Write writes the report for people to read.
func (r TrustReport) Write(w io.Writer) { r.approvals.Write(w, r.Items, r.Rules) }

// openItems removes the items that are approved, and those that cannot be.
func openItems(items []TrustItem) []TrustItem {
	return slices.DeleteFunc(items, func(it TrustItem) bool { return it.State == trust.Approved || it.Refused != "" })
}

// InheritTrust gives a worktree the approvals of the repository of which it is one. They hold for the same contents.
func InheritTrust(env Env, worktree, root string) error {
	return trust.Open(env.StateDir()).Inherit(worktree, root)
}
