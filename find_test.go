package knack_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/knack-agent/knack"
)

// writeSkills makes skills from NAME: description: body and returns their directory.
func writeSkills(t testing.TB, skills map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for name, text := range skills {
		path := filepath.Join(dir, name, "SKILL.md")
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var searched = map[string]string{
	"pdf": "---\nname: pdf\ndescription: Fill in forms and read text in PDF files\n---\n# Merging\nUse pypdf.\n",
	"docx-report": "---\naliases: [wordreport]\ndescription: Reports as documents\n---\nHeadings, tables and a " +
		"table of contents.\n", "weekly": "---\ndescription: 把每周的工作整理成周报\n---\n收集提交记录。\n",
	"deploy":         "---\ndescription: Roll out to the cluster\ndisable-model-invocation: true\n---\nhelm upgrade\n",
	"lint-rules":     "---\ndescription: House rules of the linter\npaths: [\"*.go\"]\n---\nstaticcheck\n",
	"golang-service": "---\ndescription: Services\n---\nGraceful shutdown of an HTTP server on SIGTERM.\n",
}

func names(found []knack.Match) (names []string) {
	for _, m := range found {
		names = append(names, m.Skill.Name)
	}
	return names
}

func TestFind(t *testing.T) {
	dir := writeSkills(t, searched)
	if err := os.WriteFile(filepath.Join(dir, "pdf", "extract_invoices.py"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	cat := knack.Load(t.Context(), knack.Dir(dir, knack.Origin{Kind: knack.User, Trust: knack.Trusted}))
	for query, want := range map[string]string{
		"merge PDFs":                        "pdf",
		"extract invoices":                  "pdf", // a file of the skill
		"WORDREPORT":                        "docx-report",
		"use /docx-report for a weekly pdf": "docx-report", // named in the query
		"写周报":                               "weekly",
		"SIGTERM of my server":              "golang-service",
		"roll out":                          "deploy",
	} {
		found, err := cat.Find(t.Context(), query, 3)
		if err != nil || len(found) == 0 || found[0].Skill.Name != want {
			t.Errorf("%q: %v %v, want %s first", query, names(found), err, want)
		}
	}
	for _, query := range []string{"", "  ", "\x00\x1b[2J", "qqqqzzzz", strings.Repeat("\x7f", 1<<20)} {
		if found, err := cat.Find(t.Context(), query, 3); err != nil || len(found) > 0 {
			t.Errorf("%.10q: %v %v", query, names(found), err)
		}
	}
	if found, err := cat.Find(t.Context(), strings.Repeat("pdf ", 1<<18), 3); err != nil || len(found) == 0 {
		t.Errorf("a query of 1 MiB: %v %v", names(found), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cat.Find(ctx, "pdf", 3); err == nil {
		t.Error("found with a cancelled context")
	}

	// What the model may not call it cannot find, not even by name.
	f := &knack.Finder{}
	view := knack.View{For: knack.ByModel, Overrides: map[string]knack.SkillState{"pdf": knack.Off}}
	offered := func(s *knack.Skill) bool { return cat.Offers(s, view) }
	for _, query := range []string{"roll out deploy", "deploy", "staticcheck linter", "lint-rules", "pdf forms", "pdf"} {
		found, err := f.Find(t.Context(), cat, query, 10, offered)
		if err != nil || slices.ContainsFunc(found, func(m knack.Match) bool {
			return slices.Contains([]string{"deploy", "lint-rules", "pdf"}, m.Skill.Name)
		}) {
			t.Errorf("%q: %v %v", query, names(found), err)
		}
	}
	view.Touched, view.Dir = []string{"/w/x.go"}, "/w"
	if found, _ := f.Find(t.Context(), cat, "staticcheck", 10, offered); len(found) != 1 {
		t.Errorf("an activated conditional skill: %v", names(found))
	}
}

func TestFindUntrusted(t *testing.T) {
	dir := writeSkills(t, searched)
	cat := knack.Load(t.Context(), knack.Dir(dir, knack.Origin{Kind: knack.Project}))
	if found, err := cat.Find(t.Context(), "pdf", 3); err != nil || len(found) > 0 {
		t.Errorf("found untrusted skills: %v %v", names(found), err)
	}
}

// many makes n skills, the i-th about topic i.
func many(t testing.TB, n int) string {
	skills := map[string]string{}
	for i := range n {
		skills[fmt.Sprintf("skill-%03d", i)] = fmt.Sprintf("---\ndescription: About topic%d\n---\nThe text on matter%d.\n", i,
			i)
	}
	return writeSkills(t, skills)
}

func TestFinderIndex(t *testing.T) {
	dir, state := many(t, 150), filepath.Join(t.TempDir(), "state")
	load := func() *knack.Catalog {
		return knack.Load(t.Context(), knack.Dir(dir, knack.Origin{Kind: knack.User, Trust: knack.Trusted}))
	}
	cat := load()
	first := func(f *knack.Finder, query string) string {
		t.Helper()
		found, err := f.Find(t.Context(), cat, query, 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(names(found), " ")
	}
	f := &knack.Finder{Dir: state}
	if f.Ready(t.Context(), cat) {
		t.Error("ready before any skill was read")
	}
	if err := f.Prepare(t.Context(), cat); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(state, "skills.index")
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !f.Ready(t.Context(), cat) || first(f, "matter77") != "skill-077" {
		t.Error("not found after Prepare")
	}
	// Another process finds the same without reading the skills.
	if err := os.Rename(filepath.Join(dir, "skill-077"), filepath.Join(dir, "gone")); err != nil {
		t.Fatal(err)
	}
	other := &knack.Finder{Dir: state}
	if !other.Ready(t.Context(), cat) || first(other, "matter77") != "skill-077" {
		t.Error("a second process is not ready")
	}
	// Changed, added and removed skills are found.
	for name, text := range map[string]string{"skill-005": "---\ndescription: Otters\n---\n",
		"new": "---\ndescription: Badgers\n---\n"} {
		_ = os.MkdirAll(filepath.Join(dir, name), 0o755)
		if err := os.WriteFile(filepath.Join(dir, name, "SKILL.md"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cat = load()
	for query, want := range map[string]string{"otter": "skill-005", "badger": "new", "matter77": "gone",
		"matter6": "skill-006"} {
		if got := first(other, query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
	// A damaged file does no harm.
	for name, data := range map[string][]byte{"empty": {}, "truncated": whole[:len(whole)/2],
		"foreign": []byte("SQLite format 3\x00" + strings.Repeat("x", 5000)),
		"damaged": append(slices.Clone(whole[:len(whole)-500]), make([]byte, 500)...)} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		g := &knack.Finder{Dir: state}
		_ = g.Ready(t.Context(), cat)
		if got := first(g, "skill-006"); got != "skill-006" {
			t.Errorf("%s: %q", name, got)
		}
		if name != "damaged" && first(g, "matter6") != "skill-006" {
			t.Errorf("%s: was not rebuilt", name)
		}
	}
	// A file that is replaced while it is in use is read again.
	if first(f, "matter6") != "skill-006" {
		t.Error("not found after another process wrote the file")
	}
	// A directory that is not writable: skills are still found, and the error is reported.
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	g := &knack.Finder{Dir: blocked}
	if err := g.Prepare(t.Context(), cat); err == nil {
		t.Error("no error, although the index cannot be stored")
	}
	if first(g, "matter6") != "skill-006" || !g.Ready(t.Context(), cat) {
		t.Error("not found where the index cannot be stored")
	}
}

// When some skills of a set changed, came or went, only those are read: the others are taken from the old index.
func TestFinderReuses(t *testing.T) {
	dir, state := many(t, 100), t.TempDir()
	load := func() *knack.Catalog {
		return knack.Load(t.Context(), knack.Dir(dir, knack.Origin{Kind: knack.User, Trust: knack.Trusted}))
	}
	if err := (&knack.Finder{Dir: state}).Prepare(t.Context(), load()); err != nil {
		t.Fatal(err)
	}
	write := func(name, word string) {
		_ = os.MkdirAll(filepath.Join(dir, name), 0o755)
		text := "---\ndescription: D\n---\nNew " + word + "\n"
		if err := os.WriteFile(filepath.Join(dir, name, "SKILL.md"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 30 {
		write(fmt.Sprintf("skill-%03d", i), fmt.Sprintf("changed%d", i))
		write(fmt.Sprintf("added-%03d", i), fmt.Sprintf("added%d", i))
	}
	if err := os.RemoveAll(filepath.Join(dir, "skill-050")); err != nil {
		t.Fatal(err)
	}
	cat := load()
	for i := 60; i < 100; i++ { // unchanged, and no longer readable: only the old index has their text
		if err := os.Remove(filepath.Join(dir, fmt.Sprintf("skill-%03d", i), "SKILL.md")); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []*knack.Finder{{Dir: state}, {Dir: state}} { // the second reads the file that the first wrote
		if err := f.Prepare(t.Context(), cat); err != nil || !f.Ready(t.Context(), cat) {
			t.Fatal("not ready", err)
		}
		for query, want := range map[string]string{"changed7": "skill-007", "added7": "added-007", "matter99": "skill-099",
			"matter40": "skill-040"} {
			found, err := f.Find(t.Context(), cat, query, 1, nil)
			if got := strings.Join(names(found), ""); err != nil || got != want {
				t.Errorf("%s: %q %v, want %q", query, got, err, want)
			}
		}
		found, err := f.Find(t.Context(), cat, "matter7 matter50", 200, nil)
		if got := strings.Join(names(found), " "); err != nil || len(found) < 50 || strings.Contains(got, "skill-007") ||
			strings.Contains(got, "skill-050") {
			t.Errorf("what changed or is gone was found by its old text: %s %v", got, err)
		}
	}
}

// Several processes may search and write at the same time.
func TestFinderAtOnce(t *testing.T) {
	dir, state := many(t, 120), t.TempDir()
	cat := knack.Load(t.Context(), knack.Dir(dir, knack.Origin{Kind: knack.Project, Trust: knack.Trusted}))
	var wg sync.WaitGroup
	for range 4 {
		f := &knack.Finder{Dir: state, Project: dir}
		for range 2 {
			wg.Go(func() {
				if found, err := f.Find(t.Context(), cat, "matter50", 1, nil); err != nil ||
					strings.Join(names(found), "") != "skill-050" {
					t.Errorf("%v %v", names(found), err)
				}
			})
		}
	}
	wg.Wait()
	if entries, _ := os.ReadDir(state); len(entries) != 1 || !strings.HasPrefix(entries[0].Name(), "project-") {
		t.Errorf("files left behind: %v", entries)
	}
}
