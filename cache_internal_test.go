package knack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/knack-agent/knack/internal/leaf/filetree"
	"github.com/knack-agent/knack/internal/leaf/headcache"
)

// cachedTexts are files of every kind: plain, broken, with every key.
var cachedTexts = map[string]string{
	"plain":    "---\nname: plain\ndescription: Does it\n---\nBody.\n",
	"label":    "---\nname: other\ndescription: Does it\n---\nBody.\n",
	"broken":   "---\ndescription: Use: when\nallowed_tools: [Read\n---\nBody.\n",
	"none":     "Just text.\n",
	"empty":    "",
	"not-utf8": "---\ndescription: caf\xe9\n---\n",
	"forbidden": "---\ndescription: Rules\nallowed-tools: Bash(rm:*)\ndisable-model-invocation: true\npaths: " +
		"['*.go']\n---\n", "full": `---
name: full
aliases: [a, b]
description: Everything
when_to_use: Always
license: MIT
metadata: {x: 1}
allowed-tools: Read, Bash(git:*)
disallowed-tools: [Write]
argument-hint: "[x]"
arguments: a b
user-invocable: false
disable-model-invocation: true
mode: true
model: opus
effort: high
context: fork
agent: reviewer
background: true
paths: ["*.go"]
hooks: {Stop: [{hooks: [{type: command, command: "true"}]}]}
shell: powershell
scope: session
---
Body.
`,
}

// oldFiles writes skills whose times are an hour old, and returns a folder
// with a cache.
func oldFiles(t *testing.T, texts map[string]string) (dir string, open func() *Folder) {
	t.Helper()
	if _, ok := filetree.LocalID(t.TempDir()); !ok {
		t.Skip("times and inodes of this file system are not reliable")
	}
	dir, cache := t.TempDir(), filepath.Join(t.TempDir(), "state", "cache")
	for name, text := range texts {
		writeOld(t, filepath.Join(dir, name, "SKILL.md"), text)
	}
	return dir, func() *Folder {
		return &Folder{Path: dir, Origin: Origin{Kind: User, Trust: Trusted, Dir: "/w"}, Cache: cache}
	}
}

func writeOld(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
}

// later moves now to a time when the files are old enough to be cached: the ctime of a file cannot be set.
func later(f *Folder) *Folder {
	f.now = func() time.Time { return time.Now().Add(time.Hour) }
	return f
}

// TestClock: the clock is read before the folder, so that a file that is written while the folder is read counts as
// changed afterwards.
func TestClock(t *testing.T) {
	dir, open := oldFiles(t, map[string]string{"plain": cachedTexts["plain"]})
	f := open()
	f.now = func() time.Time {
		writeOld(t, filepath.Join(dir, "full", "SKILL.md"), cachedTexts["full"])
		return time.Now()
	}
	if loaded(t, f).Skill("full") == nil {
		t.Error("the clock was read after the folder")
	}
}

var sameSkills = cmp.Options{
	cmp.AllowUnexported(Skill{}, field{}), cmpopts.EquateEmpty(),
	cmpopts.IgnoreFields(Skill{}, "Read", "List", "ReadFile", "Base", "Prompt"),
}

func loaded(t *testing.T, f *Folder) *Catalog {
	t.Helper()
	return Load(t.Context(), f)
}

func same(t *testing.T, what string, a, b *Catalog) {
	t.Helper()
	if diff := cmp.Diff(a.Skills(), b.Skills(), sameSkills); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
	if diff := cmp.Diff(a.Problems(), b.Problems()); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

// Cached and uncached results are equal, and no file is opened for the cached one.
func TestCache(t *testing.T) {
	dir, open := oldFiles(t, cachedTexts)
	plain := loaded(t, &Folder{Path: dir, Origin: open().Origin})
	first := later(open())
	same(t, "written", plain, loaded(t, first))
	if n := int64(len(cachedTexts)); first.opened != n {
		t.Errorf("%d files were opened at first, want %d", first.opened, n)
	}
	second := later(open())
	same(t, "read", plain, loaded(t, second))
	if second.opened != 0 {
		t.Errorf("%d files were opened although none changed", second.opened)
	}

	// A file that changed but has the same size and mtime; one added; one removed.
	path := filepath.Join(dir, "plain", "SKILL.md")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(cachedTexts["plain"], "Does", "Done", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	writeOld(t, filepath.Join(dir, "new", "SKILL.md"), cachedTexts["plain"])
	if err := os.RemoveAll(filepath.Join(dir, "label")); err != nil {
		t.Fatal(err)
	}
	third := later(open())
	cat := loaded(t, third)
	if third.opened != 2 || cat.Skill("plain").Description != "Done it" || cat.Skill("new") == nil ||
		cat.Skill("label") != nil {
		t.Errorf("%d files were opened, want 2; %q", third.opened, cat.Skill("plain").Description)
	}
	fourth := later(open())
	loaded(t, fourth)
	if fourth.opened != 0 {
		t.Errorf("%d files were opened after the cache was rewritten", fourth.opened)
	}
}

// A file that changed just now may change again without a visible difference.
func TestCacheLeavesOutFresh(t *testing.T) {
	_, open := oldFiles(t, cachedTexts)
	loaded(t, open())
	f := open()
	loaded(t, f)
	if n := int64(len(cachedTexts)); f.opened != n {
		t.Errorf("%d files were opened, want all %d: their ctime is now", f.opened, n)
	}
}

// Every field of Skill is cached.
func TestCacheHasEveryField(t *testing.T) {
	var s Skill
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		switch name := v.Type().Field(i).Name; {
		case !f.CanSet() || slices.Contains([]string{"ID", "Path", "Dir", "Origin", "FeatureOff", "Read", "List", "ReadFile",
			"Base", "Prompt", "Before", "Vars"}, name):
			// set by the reader, or not from a file
		case f.Kind() == reflect.String:
			f.SetString(name)
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.Kind() == reflect.Int64:
			f.SetInt(int64(i))
		case f.Type() == reflect.TypeFor[[]string]():
			f.Set(reflect.ValueOf([]string{name, "x"}))
		case name == "Sandbox":
			f.Set(reflect.ValueOf(&Restrictions{Network: "none", Write: []string{}}))
		case name == "Hooks":
			f.SetBytes([]byte(`{"a":1}`))
		default:
			t.Errorf("is %s in the cache?", name)
		}
	}
	s.fields, s.bodyAt, s.stamp, s.Path = "", 7, 1<<63, "/x/SKILL.md"
	list := []field{{"k", "v"}, {"description", ""}}
	if s.fields = encodeFields(list); !slices.Equal(s.list(), list) {
		t.Errorf("fields: %q", s.list())
	}
	got, problems, ok := decodeOutcome(encodeOutcome(&s, []Problem{{Code: "c", Severity: Warn, Path: "/x/SKILL.md",
		Line: 1, Column: 2, Message: "m", Hint: "h"}}), "/x/SKILL.md")
	if diff := cmp.Diff(&s, got, sameSkills); !ok || diff != "" || len(problems) != 1 || problems[0].Column != 2 {
		t.Errorf("%t %v %s", ok, problems, diff)
	}
}

// cacheFile returns the one file of a cache.
func cacheFile(t *testing.T, f *Folder) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(f.Cache, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v %v", files, err)
	}
	return files[0]
}

// Whatever the cache file contains, the skills equal those of the files, and the cache works again at the next start.
func TestCacheDamaged(t *testing.T) {
	dir, open := oldFiles(t, cachedTexts)
	plain := loaded(t, &Folder{Path: dir, Origin: open().Origin})
	loaded(t, later(open()))
	file := cacheFile(t, open())
	good, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	damaged := map[string][]byte{"empty": {}, "half": good[:len(good)/2], "longer": append(slices.Clone(good), 0)}
	for i := 0; i < len(good); i += 37 {
		bad := slices.Clone(good)
		bad[i] ^= 0x5a
		damaged[fmt.Sprint("byte ", i)] = bad
	}
	for name, data := range damaged {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		same(t, name, plain, loaded(t, later(open())))
	}
	f := later(open())
	loaded(t, f)
	if f.opened != 0 {
		t.Errorf("%d files were opened: the damaged cache was not replaced", f.opened)
	}
	// A directory in place of the file, or one that cannot be made: nothing is stored.
	if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o700)); err != nil {
		t.Fatal(err)
	}
	same(t, "directory", plain, loaded(t, later(open())))
	blocked := open()
	blocked.Cache = filepath.Join(dir, "plain", "SKILL.md", "cache")
	same(t, "blocked", plain, loaded(t, later(blocked)))
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".*")); len(left) > 0 {
		t.Errorf("files left behind: %v", left)
	}
}

// replaceCache writes a cache file that contains only the given entries.
func replaceCache(t *testing.T, file string, entries []headcache.Entry) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	headcache.Open(file, buildID()).Update(entries)
}

// A forged cache changes what is shown, but not what a skill may do.
func TestCacheForged(t *testing.T) {
	dir, open := oldFiles(t, cachedTexts)
	loaded(t, later(open()))
	file := cacheFile(t, open())
	forged := []headcache.Entry{}
	for _, e := range headcache.Open(file, buildID()).All() {
		s, _, _ := decodeOutcome(e.Text, e.Path)
		if s == nil {
			continue
		}
		switch filepath.Base(filepath.Dir(e.Path)) {
		case "plain":
			s.Description, s.AllowedTools, s.Model, s.Hooks, s.Fork = "Trust me", []string{"Bash(*)"}, "evil",
				[]byte(`{"Stop":[]}`), true
		case "forbidden":
			s.NotModel, s.Paths, s.DisallowedTools = false, nil, nil
		}
		e.Text = encodeOutcome(s, nil)
		forged = append(forged, e)
	}
	replaceCache(t, file, forged)
	f := later(open())
	cat := loaded(t, f)
	if f.opened != int64(len(cachedTexts)-len(forged)) || cat.Skill("plain").Description != "Trust me" {
		t.Fatalf("the forged cache was not read: %d opened, %q", f.opened, cat.Skill("plain").Description)
	}
	act, err := cat.Invoke(t.Context(), Invocation{Name: "plain", By: ByModel})
	if err != nil || len(act.Grants) > 0 || act.Model != "" || act.Hooks != nil || act.Skill.Fork {
		t.Errorf("%+v %v", act, err)
	}
	asks, err := cat.Skill("plain").Asks(t.Context())
	if err != nil || !asks.IsEmpty() {
		t.Errorf("asks for %+v %v", asks, err)
	}
	var no *Refusal
	if _, err := cat.Invoke(t.Context(), Invocation{Name: "forbidden", By: ByModel,
		View: View{Touched: []string{"/w/x.go"}}}); !errors.As(err, &no) || no.Code != RefusedToModel {
		t.Errorf("the model called a skill that is closed to models: %v", err)
	}
	// The file also determines the paths.
	writeOld(t, filepath.Join(dir, "waits", "SKILL.md"), "---\ndescription: Waits\npaths: ['*.rs']\n---\n")
	loaded(t, later(open()))
	for _, e := range headcache.Open(file, buildID()).All() {
		if strings.Contains(e.Path, "waits") {
			s, _, _ := decodeOutcome(e.Text, e.Path)
			s.Paths = nil
			e.Text = encodeOutcome(s, nil)
			replaceCache(t, file, []headcache.Entry{e})
		}
	}
	cat = loaded(t, later(open()))
	if len(cat.Skill("waits").Paths) > 0 {
		t.Fatal("the forged cache was not read")
	}
	if _, err := cat.Invoke(t.Context(), Invocation{Name: "waits", By: ByModel}); !errors.As(err, &no) ||
		no.Code != RefusedUnknown {
		t.Errorf("a conditional skill was called: %v", err)
	}
	if _, err := cat.Invoke(t.Context(), Invocation{Name: "waits", By: ByModel,
		View: View{Touched: []string{"/w/x.rs"}}}); err != nil {
		t.Errorf("a skill whose file was touched: %v", err)
	}
}

// TestCacheChecked: a folder with a Check is read whole at each start, and what the cache has for exactly the bytes
// that the Check accepted is not parsed again.
func TestCacheChecked(t *testing.T) {
	dir, open := oldFiles(t, cachedTexts)
	refused := ""
	replaces := false
	project := func() *Folder {
		f := open()
		f.Root, f.Origin.Kind = dir, Project
		f.Check = func(path string, _ []byte, _ bool) error {
			if refused != "" && strings.Contains(path, refused) {
				return errors.New("not approved")
			}
			return nil
		}
		f.Replaces = func(string, string) bool { return replaces }
		return f
	}
	plain := func() *Catalog {
		f := project()
		f.Cache = ""
		return loaded(t, f)
	}
	first := project()
	same(t, "written", plain(), loaded(t, first))
	file := cacheFile(t, first)
	second := project()
	same(t, "read", plain(), loaded(t, second))
	if n := int64(len(cachedTexts)); second.opened != n {
		t.Errorf("%d files were opened, want all %d", second.opened, n)
	}
	replaces = true
	same(t, "replaces a bundled skill", plain(), loaded(t, project()))

	// The text of an entry shows where a skill came from.
	forge := func() {
		t.Helper()
		all := headcache.Open(file, buildID()).All()
		for i, e := range all {
			if s, _, _ := decodeOutcome(e.Text, e.Path); s != nil && s.Name == "plain" {
				s.Description = "From the cache"
				all[i].Text = encodeOutcome(s, nil)
			}
		}
		replaceCache(t, file, all)
	}
	forge()
	if got := loaded(t, project()).Skill("plain").Description; got != "From the cache" {
		t.Fatalf("the cache was not used: %q", got)
	}
	// Other bytes with the same size and times are another skill.
	at := filepath.Join(dir, "plain", "SKILL.md")
	info, err := os.Stat(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, []byte(strings.Replace(cachedTexts["plain"], "Does", "Done", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(at, info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if got := loaded(t, project()).Skill("plain").Description; got != "Done it" {
		t.Errorf("a changed file: %q", got)
	}
	// A file that the Check refuses is neither taken from the cache nor stored.
	forge()
	refused = "plain"
	cat := loaded(t, project())
	if s := cat.Skill("plain"); s != nil {
		t.Errorf("an untrusted skill is in use: %+v", s)
	}
	for _, e := range headcache.Open(file, buildID()).All() {
		if strings.Contains(e.Path, "plain") {
			t.Error("a refused file is in the cache")
		}
	}
	// Unused caches are removed when one is written.
	old := time.Now().Add(-60 * 24 * time.Hour)
	stale := filepath.Join(filepath.Dir(file), "skills-0000")
	if err := errors.Join(os.WriteFile(stale, nil, 0o600), os.Chtimes(stale, old, old)); err != nil {
		t.Fatal(err)
	}
	refused = "label"
	loaded(t, project())
	if _, err := os.Stat(stale); err == nil {
		t.Error("a cache that nobody used for two months is still there")
	}
}

// Only trusted folders on local disks have a cache.
func TestCacheOnlyWhere(t *testing.T) {
	dir, open := oldFiles(t, cachedTexts)
	for name, change := range map[string]func(*Folder){
		"root":      func(f *Folder) { f.Root = dir },
		"untrusted": func(f *Folder) { f.Origin.Trust = Untrusted },
		"refused": func(f *Folder) {
			f.Check = func(string, []byte, bool) error { return errors.New("not approved") }
		},
	} {
		f := later(open())
		change(f)
		loaded(t, f)
		if _, err := os.Stat(f.Cache); err == nil {
			t.Errorf("%s: a cache was written", name)
		}
	}
	// A link's target is read each time.
	if runtime.GOOS == "windows" {
		return
	}
	target := filepath.Join(t.TempDir(), "SKILL.md")
	writeOld(t, target, cachedTexts["plain"])
	_ = os.Mkdir(filepath.Join(dir, "linked"), 0o755)
	if err := os.Symlink(target, filepath.Join(dir, "linked", "SKILL.md")); err != nil {
		t.Fatal(err)
	}
	loaded(t, later(open()))
	f := later(open())
	loaded(t, f)
	if f.opened != 1 {
		t.Errorf("%d files were opened, want only the link's target", f.opened)
	}
}

func FuzzCache(f *testing.F) {
	s := &Skill{Name: "x", AllowedTools: []string{"Read"}, fields: encodeFields([]field{{"a", "1"}})}
	f.Add(encodeOutcome(s, []Problem{{Code: "c"}}))
	f.Add("")
	f.Fuzz(func(t *testing.T, raw string) {
		s, problems, ok := decodeOutcome(raw, "/x/SKILL.md")
		if !ok {
			return
		}
		if s != nil {
			s.Fields() // their values are not checked on reading
		}
		again, _, ok := decodeOutcome(encodeOutcome(s, problems), "/x/SKILL.md")
		if diff := cmp.Diff(s, again, sameSkills); !ok || diff != "" {
			t.Errorf("%t %s", ok, diff)
		}
	})
}

// encodeFields encodes fields as parsing a file does.
func encodeFields(list []field) string {
	var w headcache.Writer
	for _, f := range list {
		w.Text(f.key)
		w.Text(f.value)
	}
	return string(w)
}
