package trust

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/sources"
)

const good = "---\ndescription: Good.\n---\nText.\n"

// loaded lists the skills and commands that load with a project's approvals: "path" for trusted ones, "!path" for
// others.
func (f folder) loaded(p *Project) []string {
	f.t.Helper()
	o := sources.Options{Managed: []string{}, Check: func(path string, data []byte, head bool) error {
		if head {
			return p.CheckHead(path, data)
		}
		return p.Check(path, data)
	}}
	o.Trust = func(_ knack.SourceKind, dir string) knack.Trust {
		if p.Links(dir) {
			return knack.Trusted
		}
		return knack.Untrusted
	}
	var all []string
	for _, src := range sources.Default(context.Background(), f.root, o) {
		for k := range src.Skills(context.Background()) {
			if k == nil {
				continue
			}
			rel, err := filepath.Rel(f.root, k.Path)
			if err != nil {
				f.t.Fatal(err)
			}
			if k.Origin.Trust == knack.Untrusted {
				rel = "!" + rel
			} else if _, err := k.Body(context.Background()); err != nil {
				f.t.Errorf("%s is listed but cannot be read: %v", rel, err)
			} else if err := p.VerifySkill(k); err != nil {
				f.t.Errorf("%s is listed but its directory is not approved: %v", rel, err)
			}
			all = append(all, filepath.ToSlash(rel))
		}
	}
	slices.Sort(all)
	return all
}

// TestShownIsLoaded: what the scan shows, once approved, is exactly what loads; before that nothing loads. The
// layouts are those in which the two used to differ.
func TestShownIsLoaded(t *testing.T) {
	for name, c := range map[string]struct {
		files []string // names and texts; "link:" makes a link
		want  string   // the files that load
	}{
		"skills of every root": {[]string{
			".claude/skills/a/SKILL.md", good, ".agents/skills/b/skill.md", good, ".knack/skills/deep/er/c/SKILL.md", good,
			".pi/skills/d.md", good, ".pi/skills/README.md", "No skill.", ".claude/commands/x/y.md", "Do.", "sub/x", "",
		}, ".agents/skills/b/skill.md .claude/commands/x/y.md .claude/skills/a/SKILL.md .knack/skills/deep/er/c/SKILL.md " +
			".pi/skills/d.md"},
		"a pack cloned as the root": {[]string{
			".claude/skills/SKILL.md", good, ".claude/skills/scripts/run.sh", "echo", ".claude/skills/.git/config", "[core]",
			".claude/skills/pdf/SKILL.md", good, ".claude/skills/pdf/run.sh", "echo", ".claude/skills/more/docx/SKILL.md", good,
		}, ".claude/skills/SKILL.md .claude/skills/more/docx/SKILL.md .claude/skills/pdf/SKILL.md"},
		"ignored": {[]string{
			".claude/skills/.gitignore", "out\n", ".claude/skills/out/SKILL.md", good, ".claude/skills/in/SKILL.md", good,
			".claude/skills/.hidden/SKILL.md", good, ".claude/skills/node_modules/x/SKILL.md", good,
		}, ".claude/skills/in/SKILL.md"},
		"links inside": {[]string{
			".claude/skills/file/SKILL.md", "link:../../../shared/one.md", "shared/one.md", good,
			".claude/skills/dir", "link:../../shared/two", "shared/two/SKILL.md", good, "shared/two/run.sh", "echo",
			".agents/skills", "link:../shared/three", "shared/three/x/SKILL.md", good,
		}, ".agents/skills/x/SKILL.md .claude/skills/dir/SKILL.md .claude/skills/file/SKILL.md"},
		"links as text": {[]string{
			".claude/skills/t/SKILL.md", "../../../shared/one.md", "shared/one.md", good,
			".claude/skills/u/SKILL.md", "../../../shared/skills/u/SKILL.md", "shared/skills/u/SKILL.md", good,
		}, ".claude/skills/t/SKILL.md .claude/skills/u/SKILL.md"},
		"links as text that leave the project": {[]string{".claude/skills/t/SKILL.md", "../../../../out.md"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFolder(t)
			for i := 0; i < len(c.files); i += 2 {
				if target, ok := strings.CutPrefix(c.files[i+1], "link:"); ok {
					f.link(target, c.files[i])
				} else {
					f.write(c.files[i], c.files[i+1])
				}
			}
			p := f.open()
			for _, path := range f.loaded(p) {
				if path[0] != '!' {
					t.Errorf("before trust: %s", path)
				}
			}
			f.approveAll(p)
			if got := strings.Join(f.loaded(p), " "); got != c.want {
				t.Errorf("loaded %q\nwant   %q", got, c.want)
			}
			for _, it := range f.scan(p, false) {
				if it.State != Approved && it.Refused == "" {
					t.Errorf("%s is %s after it was approved", it.Path, it.State)
				}
			}
			// Approving one skill opens no other.
			if err := p.Revoke(); err != nil {
				t.Fatal(err)
			}
			for _, it := range f.scan(p, false) {
				if it.Refused != "" {
					continue
				}
				if err := p.Approve(it); err != nil {
					t.Fatal(err)
				}
				for _, path := range f.loaded(p) {
					if path[0] != '!' && path != it.Path && filepath.ToSlash(filepath.Dir(path)) != it.Path &&
						!strings.HasPrefix(it.Path, "shared/") {
						t.Errorf("approving %s opened %s", it.Path, path)
					}
				}
				if err := p.Revoke(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestRootSkill: the directory of a skill in a skills root does not contain its siblings: they change independently,
// and their files are not its own.
func TestRootSkill(t *testing.T) {
	f := newFolder(t, ".claude/skills/SKILL.md", good, ".claude/skills/run.sh", "one",
		".claude/skills/pdf/SKILL.md", good, ".claude/skills/pdf/run.sh", "one")
	p := f.open()
	i := slices.IndexFunc(f.scan(p, false), func(it Item) bool { return it.Path == ".claude/skills" })
	if i < 0 {
		t.Fatal("the root skill is not shown")
	}
	if err := p.Approve(f.scan(p, false)[i]); err != nil {
		t.Fatal(err)
	}
	if got := f.check(p, ".claude/skills/run.sh"); got != "" {
		t.Errorf("its script: %s", got)
	}
	if got := f.check(p, ".claude/skills/pdf/run.sh"); got != knack.CodeUntrusted {
		t.Errorf("a sibling's script: %q", got)
	}
	f.write(".claude/skills/pdf/run.sh", "two")
	if err := p.Verify(f.path(".claude/skills")); err != nil {
		t.Errorf("a sibling changed: %v", err)
	}
	f.approveAll(p)
	check := p.CheckIn(f.path(".claude/skills"))
	if err := check(f.path(".claude/skills/run.sh"), []byte("one")); err != nil {
		t.Errorf("its script: %v", err)
	}
	if err := check(f.path(".claude/skills/pdf/run.sh"), []byte("two")); err == nil {
		t.Error("a sibling's approved script counts as its own")
	}
	f.write(".claude/skills/run.sh", "two")
	if err := p.Verify(f.path(".claude/skills")); err == nil {
		t.Error("a change of its script was not noticed")
	}
}

// TestRows: for every row that needs trust, a file is found, and passes once it is approved.
func TestRows(t *testing.T) {
	f := newFolder(t)
	var want []string
	for _, r := range layout.Rows() {
		name := r.Path
		switch {
		case !r.Trust:
			continue
		case r.Kind == layout.Skill:
			name += "/x/SKILL.md"
		case r.Depth > 0:
			name += "/x" + r.Suffix
		}
		f.write(name, good)
		want = append(want, name)
	}
	p := f.open()
	f.approveAll(p)
	for _, name := range want {
		if got := f.check(p, name); got != "" {
			t.Errorf("%s is %s", name, got)
		}
	}
	if n := len(f.scan(p, false)); n != len(want) {
		t.Errorf("%d items, want %d", n, len(want))
	}
}

// TestCommandsShown: every inline command is in the item, and nothing else.
func TestCommandsShown(t *testing.T) {
	f := newFolder(t, ".claude/skills/a/SKILL.md", "---\ndescription: x\n---\nRun !`one` and !`two "+
		"\x1b[31m`.\n```!\nthree\nfour\n```\n`!`no`` and\n```\n!`no`\n```\n")
	items := f.scan(f.open(), false)
	if len(items) != 1 || !slices.Equal(items[0].Commands, []string{"one", "two \x1b[31m", "three\nfour"}) {
		t.Errorf("%+v", items)
	}
}
