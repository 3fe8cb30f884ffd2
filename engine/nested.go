package engine

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/engine/project/trust"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/hook"
)

// addNested adds the skills of nested directories on the way to paths. It asks the user about skills
// that are untrusted or have changed. The problems are about skills that are left out.
func (t *Turn) addNested(ctx context.Context, paths []string) []knack.Problem {
	e := t.session.engine
	e.mu.Lock()
	p, nested := e.project, e.nested
	e.mu.Unlock()
	found := nested.Find(paths...)
	if len(found) == 0 {
		return nil
	}
	t.askNested(ctx, p, found)
	var problems []knack.Problem
	for _, x := range e.library.Add(ctx, found...).Problems() {
		matters := needsTrust(x) || x.Severity == knack.Error || x.Code == knack.CodeSymlinkOutside ||
			x.Code == knack.CodeLinkAsText
		if !matters || slices.ContainsFunc(problems, func(y knack.Problem) bool { return y.Path == x.Path }) {
			continue
		}
		if slices.ContainsFunc(found, func(src knack.Source) bool { return subpath.Contains(nestedPath(src), x.Path) }) {
			problems = append(problems, x)
		}
	}
	return problems
}

// nestedPath returns the path of a source that sources.Nested found.
func nestedPath(src knack.Source) string { return src.(*knack.Folder).Path }

// askNested asks the user to approve skills of nested directories that are new or have changed. After
// a no, the user is asked about a skill again only when it has changed.
func (t *Turn) askNested(ctx context.Context, p *Project, found []knack.Source) {
	if t.session.person == nil ||
		t.session.Mode() == permission.DontAsk || p.options.Env.StateDir() == "" || p.options.Trust {
		return
	}
	var dirs, names []string
	for _, src := range found {
		if dir := src.(*knack.Folder).Origin.Dir; !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
			names = append(names, p.Short(dir))
		}
	}
	items, err := p.trust.ScanSkills(ctx, dirs...)
	if err != nil {
		t.session.engine.notices.add(knack.Problem{Code: knack.CodeUnreadable, Severity: knack.Warn, Message: err.Error()})
	}
	e := t.session.engine
	e.mu.Lock()
	items = slices.DeleteFunc(items, func(it TrustItem) bool {
		return it.State == trust.Approved || it.Refused != "" || e.declinedNested[filepath.Join(p.root, it.Path)] == it.Hash
	})
	e.mu.Unlock()
	if len(items) == 0 {
		return
	}
	var b strings.Builder
	p.WriteItems(&b, items)
	title := fmt.Sprintf("Trust %s of %s?", plain.Count(len(items), "skill"), strings.Join(names, ", "))
	a, err := t.session.ask(ctx, hook.NoticePermission, title, Question{Title: title, Text: strings.TrimRight(b.String(),
		"\n"),
		Asker: AskerTrust,
		Options: []Option{{ID: OptionYes, Label: "yes, as they are now", Allow: true},
			{ID: OptionNo, Label: "no, leave them out"}}})
	switch {
	case err != nil: // no answer: the problems list what is left out
	case a.Option == OptionYes && !a.Declined:
		if err := p.trust.ApproveItems(items...); err != nil {
			t.session.engine.notices.add(knack.Problem{Code: knack.CodeUntrusted, Severity: knack.Warn,
				Message: "the approval could not be stored: " + err.Error()})
		}
	default:
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.declinedNested == nil {
			e.declinedNested = map[string]string{}
		}
		for _, it := range items {
			e.declinedNested[filepath.Join(p.root, it.Path)] = it.Hash
		}
	}
}
