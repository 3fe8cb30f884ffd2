package knack

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// files writes a tree from pairs of name and text.
func files(t *testing.T, list ...string) string {
	t.Helper()
	root := t.TempDir()
	for i := 0; i < len(list); i += 2 {
		path := filepath.Join(root, filepath.FromSlash(list[i]))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(list[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func names(c *Catalog) string {
	var all []string
	for _, s := range c.Skills() {
		all = append(all, s.Name)
	}
	return strings.Join(all, " ")
}

// TestPack: a SKILL.md directly in a skills root is one skill, and the skills beside it are others: their files are
// not its resources.
func TestPack(t *testing.T) {
	const head = "---\ndescription: Good.\n---\n"
	root := files(t, "skills/SKILL.md", head, "skills/run.sh", "", "skills/.git/config", "", "skills/README.md", "",
		"skills/pdf/SKILL.md", head, "skills/pdf/x.sh", "", "skills/more/docx/SKILL.md", head, "skills/more/notes.md", "")
	o := Origin{Kind: User, Trust: Trusted}
	path := filepath.Join(root, "skills")
	cat := Load(t.Context(), &Folder{Path: path, Origin: o, Pack: true})
	if got := names(cat); got != "docx pdf skills" {
		t.Fatalf("%s; %v", got, cat.Problems())
	}
	list, err := cat.Skill("skills").Resources(t.Context())
	if err != nil || !slices.Equal(list, []string{"README.md", "more/notes.md", "run.sh"}) {
		t.Errorf("resources: %q, %v", list, err)
	}
	act, err := cat.Invoke(t.Context(), Invocation{Name: "skills", By: ByUser})
	if err != nil || strings.Contains(act.Prompt, "pdf/x.sh") || !strings.Contains(act.Prompt, "run.sh") {
		t.Errorf("%+v, %v", act, err)
	}
	// Elsewhere such a directory is one skill and is not searched further.
	if got := names(Load(t.Context(), Dir(path, o))); got != "skills" {
		t.Errorf("not a skills root: %s", got)
	}
}

// TestLinkAsText: a SKILL.md whose whole text is a relative path is a link that was checked out as text. It is
// followed inside the root, and a problem otherwise.
func TestLinkAsText(t *testing.T) {
	const head = "---\ndescription: The target.\n---\nBody.\n"
	for name, c := range map[string]struct {
		text, description, problem string
	}{
		"inside":       {"../../shared/SKILL.md", "The target.", ""},
		"newline":      {"../../shared/SKILL.md\r\n", "The target.", ""},
		"beside":       {"./other.md", "The target.", ""},
		"bare name":    {"other.md", "The target.", ""},
		"out":          {"../../../out.md", "", "it leads out of "},
		"nowhere":      {"../nowhere.md", "", "it leads nowhere"},
		"directory":    {"../../shared/", "", "cannot be read"},
		"again":        {"../again/SKILL.md", "", "it links to another one"},
		"itself":       {"SKILL.md", "", "it links to another one"},
		"a sentence":   {"See ../../shared/SKILL.md", "See ../../shared/SKILL.md", "frontmatter-missing"},
		"one word":     {"Readme", "Readme", "frontmatter-missing"},
		"two lines":    {"../../shared/SKILL.md\nMore.", "../../shared/SKILL.md More.", "frontmatter-missing"},
		"absolute":     {"/etc/passwd", "/etc/passwd", "frontmatter-missing"},
		"an address":   {"https://example.com/x.md", "https://example.com/x.md", "frontmatter-missing"},
		"code in path": {"../`x`.md", "../x.md", "frontmatter-missing"},
	} {
		list := []string{"root/skills/s/SKILL.md", c.text, "root/shared/SKILL.md", head, "root/skills/s/other.md", head,
			"root/skills/again/SKILL.md", "../../shared/again.md", "root/shared/again.md", head, "out.md", head}
		t.Run(name, func(t *testing.T) {
			root := files(t, list...)
			check := func(t *testing.T, cat *Catalog) {
				t.Helper()
				s := cat.Skill("s")
				switch {
				case c.description == "" && s != nil:
					t.Fatalf("the skill is listed: %q", s.Description)
				case c.description != "" && (s == nil || s.Description != c.description):
					t.Fatalf("%+v; %v", s, cat.Problems())
				}
				found := false
				for _, p := range cat.Problems() {
					found = found || p.Code == "link-as-text" && c.problem != "" && strings.Contains(p.Message, c.problem) ||
						string(p.Code) == c.problem
					if p.Code == "link-as-text" && c.description != "" {
						t.Errorf("%v", p)
					}
				}
				if c.problem != "" && !found {
					t.Errorf("%q is not reported: %v", c.problem, cat.Problems())
				}
				if c.description != "The target." {
					return
				}
				act, err := cat.Invoke(t.Context(), Invocation{Name: "s", By: ByUser})
				if err != nil || !strings.Contains(act.Prompt, "Body.") {
					t.Errorf("%+v, %v", act, err)
				}
			}
			bound := filepath.Join(root, "root")
			check(t, Load(t.Context(), &Folder{Path: filepath.Join(bound, "skills"), Root: bound,
				Origin: Origin{Kind: Project, Trust: Trusted}, Pack: true}))
			if name == "out" {
				return
			}
			fsys := fstest.MapFS{}
			for i := 0; i < len(list); i += 2 {
				if rel, ok := strings.CutPrefix(list[i], "root/"); ok {
					fsys[rel] = &fstest.MapFile{Data: []byte(list[i+1])}
				}
			}
			check(t, Load(t.Context(), FS(fsys, Origin{Kind: Bundled, Trust: Trusted})))
		})
	}
	// Without a project's root, the directory of skills is the limit.
	root := files(t, "skills/s/SKILL.md", "../../out.md", "skills/t/SKILL.md", "../u/x.md", "skills/u/x.md", head,
		"out.md", head)
	if got := names(Load(t.Context(), Dir(filepath.Join(root, "skills"),
		Origin{Kind: User, Trust: Trusted}))); got != "t" {
		t.Errorf("%q", got)
	}
}
