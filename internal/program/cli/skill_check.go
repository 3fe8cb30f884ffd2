package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/engine/part/own"
	"github.com/knack-agent/knack/internal/leaf/parallel"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/skillzip"
)

// A checkedSkill is one element of `skill check --json`.
type checkedSkill struct {
	Path     string          `json:"path"`
	Name     string          `json:"name,omitempty"` // from the frontmatter
	OK       bool            `json:"ok"`             // no errors
	Problems []knack.Problem `json:"problems"`
}

func skillCheckCommand() *cobra.Command {
	var asJSON, asSARIF bool
	c := &cobra.Command{
		Use:   "check PATH...",
		Short: "Check skills against the open specification",
		Long: `Check skills against the open Agent Skills specification, with advice for their
author. A PATH is a skill, a directory of skills, or a .skill file.

An error is a violation of the specification, a warning a likely mistake. AST01 to
AST10 refer to the OWASP Agentic Skills Top 10. The exit code is 1 if there is an
error in any skill.`,
		Example: "  knack skill check .claude/skills/pdf\n  knack skill check --json .claude/skills",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return engine.Usagef("knack skill check .claude/skills", "%s: which skill?", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			var found []string // directories of skills, and archives
			for _, arg := range args {
				skills, err := skillsIn(arg)
				if err != nil {
					return notSkills(c, arg, err)
				}
				found = append(found, skills...)
				for _, dir := range passedOver(arg, skills) {
					why := "it is more than six directories down"
					if filepath.Base(dir)[0] == '.' {
						why = "its name begins with a dot"
					}
					fmt.Fprintf(c.ErrOrStderr(), "knack: warn: %s: not checked, because %s (%s %s)\n", plain.Line(dir), why,
						c.CommandPath(), plain.Line(dir))
				}
			}
			failed := 0
			var unread error
			skills := func(yield func(checkedSkill) bool) {
				for s, err := range checkAll(c, found) {
					if unread = err; err != nil || !yield(s) {
						return
					}
					if !s.OK {
						failed++
					}
				}
			}
			switch {
			case asSARIF:
				if err := writeSARIF(c.OutOrStdout(), skills); err != nil {
					return err
				}
			case asJSON:
				if err := writeList(c.OutOrStdout(), skills); err != nil {
					return err
				}
			default:
				printChecked(c, skills)
			}
			if unread != nil {
				return notSkills(c, "", unread)
			}
			if failed > 0 {
				// The problems have already been printed.
				return &engine.Error{Err: errors.New(""), Exit: engine.ExitFailed}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print a list of skills with their problems")
	c.Flags().BoolVar(&asSARIF, "sarif", false, "print the problems as SARIF 2.1.0, for code scanning")
	c.MarkFlagsMutuallyExclusive("json", "sarif")
	return c
}

func notSkills(c *cobra.Command, arg string, err error) error {
	return &engine.Error{Err: fmt.Errorf("skill check: %w", plainPath(err)),
		Hint: cmp.Or(pathHint(c, arg), "name a skill's directory, a directory of skills or a .skill file")}
}

// plainPath removes the name of the system call from an error.
func plainPath(err error) error {
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return fmt.Errorf("%s: %w", failed.Path, failed.Err)
	}
	return err
}

// pathHint returns the command to type if the user gave a skill's name instead of its path, or
// "" if there is no such skill.
func pathHint(c *cobra.Command, name string) string {
	if _, err := os.Lstat(name); name == "" || err == nil {
		return ""
	}
	cat, err := (&projectFlags{}).load(c.Context())
	if err != nil {
		return ""
	}
	for _, e := range cat.Candidates() {
		if e.Name() == name && filepath.IsAbs(e.Path) {
			return c.CommandPath() + " " + plain.Line(cat.Project.Short(filepath.Dir(e.Path)))
		}
	}
	return ""
}

// passedOver returns the directories below root in which the search for skills does not look although there are some.
// found is what it found.
func passedOver(root string, found []string) (dirs []string) {
	root = filepath.Clean(root) // as in found
	_ = filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, p)
		switch {
		case err != nil || !d.IsDir(): // a directory that cannot be read has no skills for the search either
			return nil
		case p == root && !slices.Contains(found, p):
			return nil
		case slices.Contains(found, p), d.Name() == "node_modules", d.Name() == ".git":
			return fs.SkipDir
		case d.Name()[0] == '.', strings.Count(rel, string(filepath.Separator)) >= 6:
			if _, err := knack.FindSkills(p); err == nil {
				dirs = append(dirs, p)
			}
			return fs.SkipDir
		}
		return nil
	})
	return dirs
}

// skillsIn returns the skill directories below a path, or the path itself if it is an archive.
func skillsIn(path string) ([]string, error) {
	if isArchive(path) {
		return []string{path}, nil
	}
	return knack.FindSkills(path)
}

func isArchive(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && !strings.EqualFold(filepath.Ext(path), ".md")
}

// checkAll checks skills in parallel, 64 at a time, and yields the results in order. The error
// is that of an archive that cannot be read.
func checkAll(c *cobra.Command, found []string) iter.Seq2[checkedSkill, error] {
	return func(yield func(checkedSkill, error) bool) {
		for some := range slices.Chunk(found, 64) {
			checked, errs := make([]checkedSkill, len(some)), make([]error, len(some))
			parallel.Each(len(some), func(i int) {
				if isArchive(some[i]) {
					checked[i], errs[i] = checkArchive(c, some[i])
				} else {
					checked[i] = checkSkill(c, some[i], some[i])
				}
			})
			for i, s := range checked {
				if !yield(s, errs[i]) {
					return
				}
			}
		}
	}
}

func checkSkill(c *cobra.Command, dir, display string) checkedSkill {
	s, problems := knack.Check(c.Context(), dir)
	if s != nil {
		for _, p := range slices.Concat(engine.HookProblems(s), engine.RuleProblems(s, part.KnownTools()),
			engine.SkillProblems(s, part.All()...)) {
			p.Path = filepath.Join(dir, filepath.Base(p.Path))
			problems = append(problems, p)
		}
		if p, ok := templateText(dir); ok {
			problems = append(problems, p)
		}
		problems = append(problems, own.Check(dir, part.KnownTools().AllNames())...)
	}
	r := checkedSkill{Path: display, OK: true, Problems: problems}
	if s != nil {
		r.Name = s.Label
	}
	if r.Problems == nil {
		r.Problems = []knack.Problem{}
	}
	for i, p := range problems {
		r.Problems[i].Path = strings.Replace(p.Path, dir, display, 1)
		r.OK = r.OK && p.Severity != knack.Error
	}
	return r
}

// templateText returns a problem if a skill has text that `knack skill new` wrote for its author.
func templateText(dir string) (p knack.Problem, found bool) {
	path := filepath.Join(dir, "SKILL.md")
	text, err := regular.Read(path, 1<<20)
	template, err2 := skillTemplate.ReadFile("skilltemplate/SKILL.md")
	if errors.Join(err, err2) != nil {
		return p, false
	}
	written := map[string]bool{}
	for line := range strings.Lines(string(template)) {
		// Headings may stay, and other lines are the author's.
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && strings.Contains(line, " ") &&
			!strings.Contains(line, "{{") {
			written[line] = true
		}
	}
	n, first, at := 0, 0, 0
	for line := range strings.Lines(string(text)) {
		if at++; written[strings.TrimSpace(line)] {
			if n++; first == 0 {
				first = at
			}
		}
	}
	return knack.Problem{Code: knack.CodeTemplateText, Severity: knack.Warn, Path: path, Line: first,
		Message: plain.Count(n, "line") + " of the template of skill new " +
			map[bool]string{true: "is", false: "are"}[n == 1] + " unchanged: write what this skill does"}, n > 0
}

// checkArchive checks a .skill file, unpacked into a temporary directory.
func checkArchive(c *cobra.Command, file string) (checkedSkill, error) {
	tmp, err := os.MkdirTemp("", "knack-check-")
	if err != nil {
		return checkedSkill{}, err
	}
	defer os.RemoveAll(tmp)
	dir, err := skillzip.Unpack(file, tmp)
	if err != nil {
		return checkedSkill{}, fmt.Errorf("%s: %w", file, err)
	}
	return checkSkill(c, dir, file), nil
}

// printChecked prints each skill as it is checked, and a summary at the end.
func printChecked(c *cobra.Command, all iter.Seq[checkedSkill]) {
	out := bufio.NewWriter(c.OutOrStdout())
	defer out.Flush()
	n := 0
	counts := map[knack.Severity]int{}
	for s := range all {
		n++
		for _, p := range s.Problems {
			counts[p.Severity]++
			place := p
			code := string(p.Code)
			if p.Risk != "" {
				code += ", " + p.Risk
			}
			place.Message = string(p.Severity) + ": " + p.Message + " (" + code + ")"
			fmt.Fprintln(out, plain.Line(place.String()))
			if p.Hint != "" && p.Severity != knack.Info {
				fmt.Fprintln(out, "  hint: "+plain.Line(p.Hint))
			}
		}
	}
	fmt.Fprintf(out, "%s: %s, %s, %d infos\n", count(n, "skill"), count(counts[knack.Error], "error"),
		count(counts[knack.Warn], "warning"), counts[knack.Info])
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
