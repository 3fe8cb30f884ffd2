package knack

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/frontmatter"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// maxMissed is how many files a search reads to find out whether somebody meant them for skills.
const maxMissed = 50

// missed reports a file that somebody meant for a skill and that is none: its folder is missing, or its name is another
// one. It is in the folder itself, or in a directory directly below it without a SKILL.md; what lies deeper belongs to
// a pack of skills.
func (w *walk) missed(s *searchPath, name string) {
	if w.commands || w.missing >= maxMissed || strings.Contains(s.rel, "/") {
		return
	}
	ext := strings.ToLower(filepath.Ext(name))
	base := strings.TrimSuffix(name, filepath.Ext(name))
	at := w.fsys.Join(s.path, name)
	report := func(hint string) {
		w.problem(Problem{Code: CodeNotASkill, Severity: Warn, Path: at,
			Message: "not a skill: a skill is a directory with a SKILL.md", Hint: hint})
	}
	switch {
	case s.rel != "" && base == "skill" && slices.Contains([]string{".json", ".yaml", ".yml", ".toml"}, ext):
		w.missing++
		report("write a SKILL.md beside it: its frontmatter has name and description, its text what to do")
		return
	case s.rel == "" && ext == ".skill":
		report("knack skill add " + plain.Line(at))
		return
	case strings.EqualFold(base, "README"), !slices.Contains([]string{".md", ".markdown", ".mdx", ".mdc", ".txt", ""}, ext):
		return
	case s.rel == "":
		if w.files && ext == ".md" {
			return // such a file is a skill if it has a description
		}
	case !strings.EqualFold(base, filepath.Base(s.rel)) && !strings.EqualFold(strings.TrimSuffix(base, ".md"), "skill") &&
		!strings.EqualFold(base, "skills"):
		return
	}
	w.missing++
	data, err := w.fsys.Read(at, maxFile)
	text := strings.TrimSpace(string(data))
	if s.rel == "" && ext == "" && strings.HasPrefix(text, "../") && !strings.ContainsAny(text, "\n ") {
		w.problem(Problem{Code: CodeNotASkill, Severity: Warn, Path: at, Message: "not a skill: the file contains only " +
			plain.Line(text) + ", a symbolic link that was checked out as text", Hint: "git config core.symlinks true, " +
			"then git checkout -- " + plain.Line(name)})
		return
	}
	if err != nil || !describesSkill(data) {
		return
	}
	if s.rel == "" {
		report("move it to " + plain.Line(w.fsys.Join(w.fsys.Join(s.path, base), "SKILL.md")))
	} else {
		report("rename it to SKILL.md")
	}
}

// describesSkill reports whether a file has frontmatter with a name or a description.
func describesSkill(data []byte) bool {
	head, _ := frontmatter.Parse(frontmatter.Split(data).Head, 1)
	return slices.ContainsFunc(head, func(p frontmatter.Pair) bool { return p.Key == "name" || p.Key == "description" })
}
