package instructions

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRules: rules without paths follow the context file of their directory; those with paths wait for a file that
// matches.
func TestRules(t *testing.T) {
	o := fixture(t, map[string]string{
		"home/.claude/rules/mine.md":             "user rule",
		"home/repo/CLAUDE.md":                    "root",
		"home/repo/.claude/rules/style.md":       "style, see @../../extra.md",
		"home/repo/extra.md":                     "more",
		"home/repo/.claude/rules/api/go.md":      "---\npaths: [\"api/**/*.go\", \"*.proto\"]\n---\nGo rule",
		"home/repo/.claude/rules/cursor.md":      "---\ndescription: D\nglobs: *.vue, *.svelte\nalwaysApply: false\n---\nUI",
		"home/repo/.claude/rules/web.md":         "---\npaths: \"web/**/*.{ts,tsx}, web/*.css\"\n---\nweb rule",
		"home/repo/.claude/rules/all.md":         "---\npaths: \"**\"\n---\nall",
		"home/repo/.claude/rules/odd.md":         "---\npaths: {a: b}\n---\nodd",
		"home/repo/.claude/rules/notes.txt":      "not Markdown",
		"home/repo/.claude/rules/out.md@":        "$TOP/outside.md",
		"outside.md":                             "outside",
		"home/repo/sub/.claude/rules/s.md":       "sub rule",
		"home/repo/sub/x/.claude/rules/below.md": "below",
	})
	f := Load(o)
	if got, want := texts(f), "user rule|root|all|odd|style, see more|sub rule"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for touched, want := range map[string]string{
		"api/v1/x.go": "Go rule", "deep/down/x.proto": "Go rule", "web/a.css": "web rule", "web/a/b/c.tsx": "web rule",
		"web/a/b/c.css": "", "cmd/x.go": "", "deep/a.vue": "UI", "b.svelte": "UI",
	} {
		got := ""
		for _, d := range f.Matching([]string{filepath.Join(o.Root, touched)}) {
			got += d.Text
		}
		if got != want {
			t.Errorf("after %s: %q, want %q", touched, got, want)
		}
	}
	if got := f.Matching([]string{"/elsewhere/web/a.css"}); len(got) != 0 {
		t.Errorf("a file outside the repository: %v", got)
	}
	var bad []string
	for _, p := range f.Problems {
		bad = append(bad, filepath.Base(p.Path)+" "+string(p.Code))
	}
	slices.Sort(bad)
	if got, want := strings.Join(bad, ", "), "odd.md field-type, out.md unreadable"; got != want {
		t.Errorf("problems: %s, want %s", got, want)
	}
}

// TestBelow: the context files of a directory below the working directory apply once a file in it was touched.
func TestBelow(t *testing.T) {
	o := fixture(t, map[string]string{
		"home/repo/CLAUDE.md":                      "root",
		"home/repo/sub/CLAUDE.md":                  "working directory",
		"home/repo/sub/src/CLAUDE.md":              "src, see @../../extra.md",
		"home/repo/sub/src/ai/AGENTS.md":           "ai",
		"home/repo/sub/src/ai/AGENTS.local.md":     "of mine",
		"home/repo/sub/src/ai/CLAUDE.md":           "beside AGENTS.md",
		"home/repo/sub/big/CLAUDE.md":              strings.Repeat("x", 65<<10),
		"home/repo/sub/out/CLAUDE.md@":             "$TOP/outside.md",
		"home/repo/sub/node_modules/dep/AGENTS.md": "a package",
		"home/repo/sub/.venv/lib/AGENTS.md":        "another",
		"home/repo/sub/clone/.git/HEAD":            "ref",
		"home/repo/sub/clone/a/AGENTS.md":          "of another repository",
		"home/repo/other/CLAUDE.md":                "beside the working directory",
		"home/repo/extra.md":                       "more",
		"outside.md":                               "outside",
	})
	o.Dir = filepath.Join(o.Root, "sub")
	f := Load(o)
	if got, want := texts(f), "root|working directory"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for range 2 { // what was read is kept
		for touched, want := range map[string]string{
			"sub/src/x.go": "src, see more", "sub/src/ai/deep/x.go": "src, see more|ai|beside AGENTS.md|of mine", "sub/x.go": "",
			"sub/big/x.go": "", "sub/out/x.go": "", "sub/node_modules/dep/x.js": "", "sub/.venv/lib/x.py": "", "sub/clone/a/x.go": "",
			"other/x.go": "",
		} {
			var got []string
			for _, d := range f.Matching([]string{filepath.Join(o.Root, touched)}) {
				got = append(got, d.Text)
			}
			if strings.Join(got, "|") != want {
				t.Errorf("after %s: %q, want %q", touched, got, want)
			}
		}
	}
	if len(f.Problems) != 2 {
		t.Errorf("problems: %v", f.Problems)
	}
}

// TestRulesBelow: rules of a directory below the working directory apply once a file in it was touched, and those with
// paths, which are relative to that directory, once one matches. A file is sent once, also if another imports it.
func TestRulesBelow(t *testing.T) {
	o := fixture(t, map[string]string{
		"home/repo/CLAUDE.md":                  "root",
		"home/repo/api/.claude/rules/all.md":   "api",
		"home/repo/api/.claude/rules/go.md":    "---\npaths: \"v1/*.go\"\n---\nGo",
		"home/repo/web/CLAUDE.md":              "web, see @.claude/rules/style.md",
		"home/repo/web/.claude/rules/style.md": "style",
		"home/repo/web/.claude/rules/css.md":   "---\npaths: \"**/*.css\"\n---\nCSS",
		"home/repo/out/.claude/rules@":         "$TOP/outside",
		"home/repo/clone/.git/HEAD":            "ref",
		"home/repo/clone/.claude/rules/a.md":   "of another repository",
		"outside/a.md":                         "outside",
	})
	o.Dir = o.Root
	f := Load(o)
	if got, want := texts(f), "root"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for range 2 { // what was read is kept
		for touched, want := range map[string]string{
			"api/x.go": "api", "api/v1/x.go": "api|Go", "v1/x.go": "", "web/x.ts": "web, see style", "web/a/x.css": "web, see style|CSS",
			"out/x.go": "", "clone/x.go": "", "x.css": "",
		} {
			var got []string
			for _, d := range f.Matching([]string{filepath.Join(o.Root, touched)}) {
				got = append(got, d.Text)
			}
			if strings.Join(got, "|") != want {
				t.Errorf("after %s: %q, want %q", touched, got, want)
			}
		}
	}
	if len(f.Problems) != 1 {
		t.Errorf("problems: %v", f.Problems)
	}
}

// TestContextInClaude: .claude/CLAUDE.md is a context file of its directory; the user's is sent once.
func TestContextInClaude(t *testing.T) {
	o := fixture(t, map[string]string{
		"home/.claude/CLAUDE.md":            "user",
		"home/repo/.claude/CLAUDE.md":       "repo",
		"home/repo/sub/CLAUDE.md":           "sub",
		"home/repo/sub/.claude/CLAUDE.md":   "sub, too",
		"home/repo/sub/x/.claude/CLAUDE.md": "below",
		"home/repo/sub/x/y/.claude/hooks/a": "",
	})
	f := Load(o)
	if got, want := texts(f), "user|repo|sub|sub, too"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if docs := f.Matching([]string{filepath.Join(o.Dir, "x/y/z.go")}); len(docs) != 1 || docs[0].Text != "below" {
		t.Errorf("%v", docs)
	}
}

// TestCursorRules: a rule may have globs besides paths, alwaysApply, and patterns that YAML takes for tags.
func TestCursorRules(t *testing.T) {
	o := fixture(t, map[string]string{
		"home/repo/.claude/rules/both.md":   "---\nglobs: *.vue\npaths: [\"*.svelte\"]\n---\nboth",
		"home/repo/.claude/rules/always.md": "---\nglobs: *.vue\nalwaysApply: true\n---\nalways",
		"home/repo/.claude/rules/lost.md":   "---\npaths: [!src/**, \"*.nim\"]\n---\nlost",
		"home/repo/.claude/rules/odd.md":    "---\nglobs: *.vue\nalwaysApply: perhaps\n---\nodd",
	})
	f := Load(o)
	if got := texts(f); got != "always" {
		t.Errorf("%s, want always", got)
	}
	for touched, want := range map[string]int{"a.vue": 2, "b.svelte": 1} {
		if docs := f.Matching([]string{filepath.Join(o.Root, touched)}); len(docs) != want || docs[0].Text != "both" {
			t.Errorf("after %s: %v", touched, docs)
		}
	}
	if len(f.Problems) != 2 || f.Problems[0].Code != "text-lost" ||
		f.Problems[1].Message != `alwaysApply: "perhaps" is neither true nor false` {
		t.Errorf("problems: %v", f.Problems)
	}
}
