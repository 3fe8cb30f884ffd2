package trust

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/gate"
)

// A folder is a project under test, with its user's state directory.
type folder struct {
	t           testing.TB
	root, state string
}

func newFolder(t testing.TB, files ...string) folder {
	f := folder{t, t.TempDir(), t.TempDir()}
	for i := 0; i < len(files); i += 2 {
		f.write(files[i], files[i+1])
	}
	return f
}

func (f folder) path(name string) string { return filepath.Join(f.root, filepath.FromSlash(name)) }

func (f folder) write(name, text string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(f.path(name)), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(f.path(name), []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f folder) link(target, name string) {
	f.t.Helper()
	if err := os.MkdirAll(filepath.Dir(f.path(name)), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Symlink(target, f.path(name)); err != nil {
		f.t.Skipf("symbolic links do not work on this system: %v", err)
	}
}

func (f folder) open() *Project {
	f.t.Helper()
	p, err := Open(f.state).Project(f.root)
	if err != nil {
		f.t.Fatal(err)
	}
	return p
}

func (f folder) scan(p *Project, links bool) []Item {
	f.t.Helper()
	items, err := p.Scan(context.Background(), f.root, links)
	if err != nil {
		f.t.Fatal(err)
	}
	return items
}

// approveAll approves everything that can be approved.
func (f folder) approveAll(p *Project) {
	f.t.Helper()
	items := slices.DeleteFunc(f.scan(p, false), func(it Item) bool { return it.Refused != "" })
	if err := p.Approve(items...); err != nil {
		f.t.Fatal(err)
	}
}

// check reads a file and returns its state: "", untrusted, changed-since-approval.
func (f folder) check(p *Project, name string) knack.Code {
	f.t.Helper()
	data, err := os.ReadFile(f.path(name))
	if err != nil {
		f.t.Fatal(err)
	}
	return code(p.Check(f.path(name), data))
}

func code(err error) knack.Code {
	var p knack.Problem
	if err == nil {
		return ""
	}
	if errors.As(err, &p) {
		return p.Code
	}
	return knack.Code(err.Error())
}

func want[T ~string](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

const skill = ".claude/skills/pdf/SKILL.md"

func project(t testing.TB) folder {
	return newFolder(t,
		skill, "---\nname: pdf\nallowed-tools: Read\n---\nText.\n",
		".claude/skills/pdf/scripts/run.sh", "echo one\n",
		".claude/commands/a/fix.md", "Fix.",
		".claude/agents/helper.md", "Help.",
		".claude/hooks/guard.sh", "exit 0",
		".claude/settings.json", `{"permissions": {"allow": ["Bash"]}}`,
		".knack/prompts/say.md", "Say.",
		".knack/SYSTEM.md", "Obey.",
		".pi/skills/loose.md", "---\ndescription: Loose.\n---\n",
		".mcp.json", `{"mcpServers": {}}`,
		"sub/dir/.agents/skills/deep/skill.md", "Deep.",
		"node_modules/x/.claude/skills/evil/SKILL.md", "Not looked at.",
		"README.md", "Not a resource.",
	)
}

func TestScan(t *testing.T) {
	f := project(t)
	var got []string
	for _, it := range f.scan(f.open(), false) {
		got = append(got, fmt.Sprintf("%s %s %s", it.State, it.Kind, it.Path))
	}
	wanted := []string{
		"new agent .claude/agents/helper.md",
		"new command .claude/commands/a/fix.md",
		"new hooks .claude/hooks/guard.sh",
		"new settings .claude/settings.json",
		"new skill .claude/skills/pdf",
		"new system .knack/SYSTEM.md",
		"new template .knack/prompts/say.md",
		"new mcp .mcp.json",
		"new skill .pi/skills/loose.md",
		"new skill sub/dir/.agents/skills/deep",
	}
	if !slices.Equal(got, wanted) {
		t.Errorf("got:\n%s", strings.Join(got, "\n"))
	}
}

// TestNestedDeeply: opening a directory takes as many system calls as it is deep, so that a few thousand directories in
// each other would take minutes. Found by attack.
func TestNestedDeeply(t *testing.T) {
	deep := strings.Repeat("d/", maxDepth+1)
	f := newFolder(t, ".claude/skills/a/SKILL.md", "---\ndescription: d\n---\n", ".claude/skills/a/"+deep+"x", "")
	items := f.scan(f.open(), false)
	if len(items) != 1 || !strings.Contains(items[0].Refused, "deep") {
		t.Errorf("a skill: %+v", items)
	}
	f = newFolder(t, deep+".claude/skills/a/SKILL.md", "---\ndescription: d\n---\n")
	if items, err := f.open().Scan(context.Background(), f.root, false); err == nil || len(items) > 0 {
		t.Errorf("the project: %v, %+v", err, items)
	}
}

func TestCheck(t *testing.T) {
	f := project(t)
	p := f.open()
	names := []string{skill, ".claude/skills/pdf/scripts/run.sh", ".claude/commands/a/fix.md", ".claude/agents/helper.md",
		".claude/hooks/guard.sh", ".claude/settings.json", ".knack/prompts/say.md", ".knack/SYSTEM.md", ".pi/skills/loose.md",
		".mcp.json", "sub/dir/.agents/skills/deep/skill.md"}
	for _, n := range names {
		want(t, "before: "+n, f.check(p, n), knack.CodeUntrusted)
	}
	f.approveAll(p)
	again := f.open() // as another run sees it
	for _, q := range []*Project{p, again} {
		for _, n := range names {
			want(t, "approved: "+n, f.check(q, n), "")
		}
		want(t, "never shown", f.check(q, "README.md"), knack.CodeUntrusted)
	}
	for _, n := range names {
		data, err := os.ReadFile(f.path(n))
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)-1]++
		want(t, "one changed byte: "+n, code(again.Check(f.path(n), data)), knack.CodeChanged)
	}
	f.write(".claude/skills/new/SKILL.md", "New.")
	want(t, "a new skill", f.check(again, ".claude/skills/new/SKILL.md"), knack.CodeUntrusted)
	f.write(".claude/skills/pdf/scripts/new.sh", "echo new")
	want(t, "a new script of a trusted skill", f.check(again, ".claude/skills/pdf/scripts/new.sh"), knack.CodeUntrusted)
	want(t, "outside of the project", code(again.Check(filepath.Join(f.state, "x"), nil)), knack.CodeUntrusted)
	want(t, "a nil project", code((*Project)(nil).Check(f.path(skill), nil)), knack.CodeUntrusted)

	if err := p.Revoke(); err != nil {
		t.Fatal(err)
	}
	want(t, "revoked", f.check(f.open(), skill), knack.CodeUntrusted)
	want(t, "a run that goes on, before it reloads", f.check(again, skill), "")
	if err := again.Reload(); err != nil {
		t.Fatal(err)
	}
	want(t, "and after", f.check(again, skill), knack.CodeUntrusted)
}

// TestHead: an approved head counts only as a head.
func TestHead(t *testing.T) {
	f := project(t)
	long := "---\nname: pdf\n---\n" + strings.Repeat("text ", 2000)
	f.write(skill, long)
	p := f.open()
	f.approveAll(p)
	at := f.path(skill)
	want(t, "head", code(p.CheckHead(at, []byte(long[:HeadSize]))), "")
	want(t, "a file cut to its head", code(p.Check(at, []byte(long[:HeadSize]))), knack.CodeChanged)
	want(t, "a shorter head", code(p.CheckHead(at, []byte(long[:100]))), knack.CodeChanged)
	want(t, "a changed head", code(p.CheckHead(at, []byte("+"+long[1:HeadSize]))), knack.CodeChanged)
	want(t, "a short file", code(p.CheckHead(f.path(".claude/commands/a/fix.md"), []byte("Fix."))), "")
	want(t, "no head of a script", code(p.CheckHead(f.path(".claude/skills/pdf/scripts/run.sh"), []byte("echo one\n"))),
		knack.CodeUntrusted)
}

// TestVerify: files that are not read at load are compared with the approval when the skill is activated.
func TestVerify(t *testing.T) {
	dir := ".claude/skills/pdf"
	for _, c := range []struct {
		name    string
		change  func(f folder) error
		message string
	}{
		{"nothing", func(folder) error { return nil }, ""},
		{"a byte", func(f folder) error { f.write(dir+"/scripts/run.sh", "echo onf\n"); return nil },
			"scripts/run.sh changed"},
		{"a new file", func(f folder) error { f.write(dir+"/scripts/x.py", ""); return nil }, "scripts/x.py is new"},
		{"a removed file", func(f folder) error { return os.Remove(f.path(dir + "/scripts/run.sh")) },
			"scripts/run.sh is gone"},
		{"an executable bit", func(f folder) error {
			if runtime.GOOS == "windows" {
				f.t.Skip("this system has no executable bits")
			}
			return os.Chmod(f.path(dir+"/scripts/run.sh"), 0o700)
		}, "scripts/run.sh became executable"},
		{"a link in a file's place", func(f folder) error {
			if err := os.Remove(f.path(dir + "/scripts/run.sh")); err != nil {
				return err
			}
			f.link("/bin/sh", dir+"/scripts/run.sh")
			return nil
		}, "scripts/run.sh changed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := project(t)
			f.t = t
			p := f.open()
			want(t, "untrusted", code(p.Verify(f.path(dir))), knack.CodeUntrusted)
			f.approveAll(p)
			if err := c.change(f); err != nil {
				t.Fatal(err)
			}
			err := p.Verify(f.path(dir))
			if c.message == "" {
				want(t, "unchanged", code(err), "")
				return
			}
			if code(err) != knack.CodeChanged || !strings.Contains(err.Error(), c.message) {
				t.Errorf("error: %v", err)
			}
			// After a new approval the skill verifies again, and no other approval is lost.
			f.approveAll(p)
			want(t, "approved again", code(p.Verify(f.path(dir))), "")
			want(t, "what did not change", f.check(p, ".mcp.json"), "")
		})
	}
}

func TestDiff(t *testing.T) {
	f := project(t)
	p := f.open()
	f.approveAll(p)
	f.write(".claude/skills/pdf/scripts/run.sh", "echo two\n")
	f.write(".claude/skills/pdf/scripts/new.sh", "curl evil\n")
	f.write(".claude/skills/pdf/data.bin", "\x00\x01")
	f.write(".claude/settings.json", `{"permissions": {"allow": ["*"]}}`)
	var got strings.Builder
	for _, it := range f.scan(f.open(), false) {
		got.WriteString(p.Diff(it))
	}
	for _, part := range []string{
		"-echo one\n+echo two\n", "--- /dev/null\n+++ b/.claude/skills/pdf/scripts/new.sh", "+curl evil",
		"data.bin: 2 bytes, were 0", `-{"permissions": {"allow": ["Bash"]}}`, `+{"permissions": {"allow": ["*"]}}`,
	} {
		if !strings.Contains(got.String(), part) {
			t.Errorf("%q is not in:\n%s", part, got.String())
		}
	}
	if strings.Contains(got.String(), "SKILL.md") {
		t.Errorf("the diff shows unchanged lines:\n%s", got.String())
	}
}

// TestSkillDiff: the difference of one skill is that of its item, and a skill that is gone, or elsewhere, has none.
func TestSkillDiff(t *testing.T) {
	f := newFolder(t, ".claude/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: One.\n---\n",
		".claude/skills/other/SKILL.md", "---\nname: other\ndescription: x\n---\n")
	p := f.open()
	p.Bundled = []string{"pdf"}
	f.approveAll(p)
	k := &knack.Skill{Name: "pdf", Dir: f.path(".claude/skills/pdf"), Path: f.path(".claude/skills/pdf/SKILL.md"),
		ID: f.path(".claude/skills/pdf/SKILL.md")}
	diff := func() string {
		t.Helper()
		text, err := p.SkillDiff(k)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	want(t, "nothing changed", diff(), "")
	f.write(".claude/skills/pdf/SKILL.md", "---\nname: pdf\ndescription: Two.\n---\n")
	if text := diff(); !strings.Contains(text, "-description: One.") || !strings.Contains(text, "+description: Two.") {
		t.Errorf("the difference is %q", text)
	}
	if err := os.RemoveAll(k.Dir); err != nil {
		t.Fatal(err)
	}
	want(t, "gone", diff(), "")
	k.Path = filepath.Join(filepath.Dir(k.Path), "prompt.md")
	want(t, "a file that is gone", diff(), "")
	k.Path = filepath.Join(t.TempDir(), "SKILL.md")
	want(t, "elsewhere", diff(), "")
}

// TestApproveWhatWasShown: what changes between the question and the answer is not approved.
func TestApproveWhatWasShown(t *testing.T) {
	f := project(t)
	p := f.open()
	items := f.scan(p, false)
	f.write(skill, "hostile")
	f.write(".claude/skills/pdf/scripts/run.sh", "hostile")
	f.write(".mcp.json", "hostile")
	if err := p.Approve(items...); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{skill, ".claude/skills/pdf/scripts/run.sh", ".mcp.json"} {
		want(t, n, f.check(p, n), knack.CodeChanged)
	}
	want(t, "the folder", code(p.Verify(f.path(".claude/skills/pdf"))), knack.CodeChanged)
}

func TestOnce(t *testing.T) {
	f := project(t)
	p := f.open()
	p.Once()
	want(t, "first", f.check(p, skill), "")
	want(t, "folder", code(p.Verify(f.path(".claude/skills/pdf"))), "")
	f.write(skill, "changed")
	want(t, "changed during the run", f.check(p, skill), knack.CodeUntrusted)
	want(t, "its folder", code(p.Verify(f.path(".claude/skills/pdf"))), knack.CodeUntrusted)
	want(t, "the next run", f.check(f.open(), ".mcp.json"), knack.CodeUntrusted)
	if entries, err := os.ReadDir(f.state); err != nil || len(entries) > 0 {
		t.Errorf("a run with --trust stored %v, %v", entries, err)
	}
}

// TestLinks: the target of a link that leaves the project is neither read nor approved with the rest.
func TestLinks(t *testing.T) {
	f := project(t)
	secret := filepath.Join(t.TempDir(), "secret.md")
	if err := os.WriteFile(secret, []byte("TOP SECRET"), 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	if err := os.WriteFile(filepath.Join(elsewhere, "SKILL.md"), []byte("My own."), 0o600); err != nil {
		t.Fatal(err)
	}
	f.link(secret, ".claude/commands/secret.md")
	f.link(secret, ".claude/settings.local.json")
	f.link(elsewhere, ".claude/skills/mine")
	f.link(secret, ".claude/skills/pdf/notes.md")
	f.link("../commands", ".claude/skills/inside")
	p := f.open()
	refused := map[string]bool{}
	for _, it := range f.scan(p, false) {
		if it.Refused != "" {
			refused[it.Path] = true
			if it.Hash != "" || it.Loads != nil || it.Target == "" {
				t.Errorf("the target was read: %+v", it)
			}
			if err := p.Approve(it); err == nil {
				t.Errorf("%s was approved", it.Path)
			}
		}
	}
	for _, n := range []string{".claude/commands/secret.md", ".claude/settings.local.json", ".claude/skills/mine"} {
		if !refused[n] {
			t.Errorf("%s was not refused", n)
		}
	}
	f.approveAll(p)
	for _, n := range []string{".claude/commands/secret.md", ".claude/skills/mine/SKILL.md"} {
		want(t, n, f.check(p, n), knack.CodeUntrusted)
	}
	if code(p.Check(f.path(".claude/skills/pdf/notes.md"), []byte("TOP SECRET"))) == "" {
		t.Error("a link inside a skill counts as a file of the skill")
	}
	// No part of it is in the store.
	err := filepath.WalkDir(f.state, func(name string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".zip" {
			return err
		}
		z, err := zip.OpenReader(name)
		if err != nil {
			return err
		}
		defer z.Close()
		for _, file := range z.File {
			if strings.Contains(file.Name, "notes.md") || strings.Contains(file.Name, "secret.md") {
				t.Errorf("%s contains %s", name, file.Name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}

	once := f.open()
	once.Once()
	want(t, "--trust does not cover links that leave", f.check(once, ".claude/skills/mine/SKILL.md"), knack.CodeUntrusted)

	// A user who approves the links gets them; settings are never read that way.
	for _, it := range f.scan(p, true) {
		if it.Target != "" && it.Refused == "" {
			if err := p.Approve(it); err != nil {
				t.Fatal(err)
			}
		}
	}
	want(t, "an approved link", f.check(p, ".claude/skills/mine/SKILL.md"), "")
	real, err := filepath.EvalSymlinks(elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Links(real) || p.Links(f.root) {
		t.Error("Links does not report the approval")
	}
	want(t, "settings through a link", f.check(p, ".claude/settings.local.json"), knack.CodeUntrusted)
}

func TestTwoProgramsAtOnce(t *testing.T) {
	f := newFolder(t)
	const n = 20
	for i := range n {
		f.write(fmt.Sprintf(".claude/skills/s%d/SKILL.md", i), fmt.Sprint("Text ", i))
	}
	items := f.scan(f.open(), false)
	var wg sync.WaitGroup
	for _, it := range items {
		wg.Go(func() {
			if err := f.open().Approve(it); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	p := f.open()
	for i := range n {
		want(t, fmt.Sprint(i), f.check(p, fmt.Sprintf(".claude/skills/s%d/SKILL.md", i)), "")
	}
}

func TestStore(t *testing.T) {
	f := project(t)
	p := f.open()
	f.approveAll(p)
	if runtime.GOOS != "windows" {
		err := filepath.WalkDir(f.state, func(name string, d fs.DirEntry, err error) error {
			if err != nil || name == f.state {
				return err
			}
			info, err := d.Info()
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s: %v", name, info.Mode())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// The manifest of an approved skill cannot be exchanged for another.
	for _, hashOf := range f.scan(p, false) {
		if hashOf.Path != ".claude/skills/pdf" {
			continue
		}
		f2 := project(t)
		f2.write(".claude/skills/pdf/scripts/run.sh", "hostile")
		q := f2.open()
		for _, it := range f2.scan(q, false) {
			if it.Path == hashOf.Path {
				if err := q.keep(it); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(q.zipName(it.Hash), p.zipName(hashOf.Hash)); err != nil {
					t.Fatal(err)
				}
			}
		}
		want(t, "an exchanged manifest", code(p.Check(f.path(".claude/skills/pdf/scripts/run.sh"), []byte("hostile"))),
			knack.CodeUntrusted)
	}
	// A record that cannot be parsed does not count as empty.
	if err := os.WriteFile(filepath.Join(p.store, "trust.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(f.state).Project(f.root); err == nil {
		t.Error("a broken record counts as empty")
	}
	if err := p.Approve(); err == nil {
		t.Error("a broken record was overwritten")
	}
}

func TestKeep(t *testing.T) {
	f := project(t)
	p := f.open()
	file := gate.File{Path: f.path("run.sh"), Hash: hash([]byte("echo one\n")), Data: []byte("echo one\n")}
	if err := p.Keep(gate.Kept{Rule: "Bash(npm ci)"}, gate.Kept{Rule: "Bash(./run.sh)",
		Files: []gate.File{file}}); err != nil {
		t.Fatal(err)
	}
	if err := f.open().Keep(gate.Kept{Rule: "Bash(npm ci)"}); err != nil {
		t.Fatal(err)
	}
	kept, err := f.open().Kept()
	if err != nil || len(kept) != 2 || kept[0].Rule != "Bash(./run.sh)" || string(kept[0].Files[0].Data) != "echo one\n" ||
		kept[0].Files[0].Hash != file.Hash {
		t.Fatalf("stored %+v, %v", kept, err)
	}
	if _, err := os.Stat(f.path(".knack/settings.local.json")); err == nil {
		t.Error("an answer was stored in the project")
	}
	if err := p.Revoke(); err != nil {
		t.Fatal(err)
	}
	if kept, err := f.open().Kept(); err != nil || len(kept) != 0 {
		t.Errorf("after revoking: %+v, %v", kept, err)
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(manifestHead + "f " + hash(nil) + " 0 \"a b\"\n"))
	f.Add([]byte(manifestHead + "x aa 3 \"\\n\\x00\"\nl bb 0 \"c\"\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := parseManifest(data)
		if err != nil {
			return
		}
		again, err := parseManifest(m.text())
		if err != nil || string(again.text()) != string(m.text()) {
			t.Errorf("%q: %v", m.text(), err)
		}
	})
}

// BenchmarkStart measures the cost of trust at startup with 1,000 approved skills: the record is read, and every
// SKILL.md, already in memory, is checked.
func BenchmarkStart(b *testing.B) {
	f := newFolder(b)
	body := strings.Repeat("A line of text in a skill, as they are.\n", 200) // 8 kB
	files := map[string][]byte{}
	for i := range 1000 {
		n := fmt.Sprintf(".claude/skills/skill-%d/SKILL.md", i)
		files[f.path(n)] = fmt.Appendf(nil, "---\nname: skill-%d\n---\n%s", i, body)
		f.write(n, string(files[f.path(n)]))
		for _, s := range []string{"a.py", "b.py", "c.md"} {
			f.write(fmt.Sprintf(".claude/skills/skill-%d/scripts/%s", i, s), body)
		}
	}
	f.approveAll(f.open())
	b.Run("record", func(b *testing.B) {
		for b.Loop() {
			f.open()
		}
	})
	b.Run("record+check", func(b *testing.B) {
		for b.Loop() {
			p := f.open()
			for name, data := range files {
				if err := p.CheckHead(name, data[:HeadSize]); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	p := f.open()
	b.Run("verify-one", func(b *testing.B) {
		for b.Loop() {
			if err := p.Verify(f.path(".claude/skills/skill-7")); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("scan", func(b *testing.B) {
		for b.Loop() {
			f.scan(p, false)
		}
	})
}
