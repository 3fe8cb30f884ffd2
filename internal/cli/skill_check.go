package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/internal/skillzip"
)

// A checked skill is one element of `skill check --json`.
type checkedSkill struct {
	Path     string          `json:"path"`
	Name     string          `json:"name,omitempty"` // of the frontmatter
	OK       bool            `json:"ok"`             // without errors
	Problems []knack.Problem `json:"problems"`
}

func skillCheckCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "check PATH…",
		Short: "Hold skills against the open specification, and advise their author",
		Long: `Hold skills against the open Agent Skills specification, and advise their
author. A PATH is a skill, a directory of skills, or a .skill file.

Errors break the specification, warnings are likely mistakes. The exit code is 1
if there is an error in any skill.`,
		Example: "  knack skill check .claude/skills/pdf\n  knack skill check --json .claude/skills",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return engine.Usagef("knack skill check .claude/skills", "%s: which skill?", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			var all []checkedSkill
			for _, arg := range args {
				skills, err := checkPath(c, arg)
				if err != nil {
					return &engine.Error{Err: fmt.Errorf("skill check: %w", err), Hint: "name a skill's directory, a directory of skills or a .skill file"}
				}
				all = append(all, skills...)
			}
			failed := 0
			for _, s := range all {
				if !s.OK {
					failed++
				}
			}
			if asJSON {
				enc := json.NewEncoder(plain.JSON(c.OutOrStdout()))
				enc.SetEscapeHTML(false)
				enc.SetIndent("", "  ")
				if err := enc.Encode(all); err != nil {
					return err
				}
			} else {
				printChecked(c, all)
			}
			if failed > 0 {
				// What is wrong has been said.
				return &engine.Error{Err: errors.New(""), Exit: engine.ExitFailed}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print a list of skills with their problems")
	return c
}

// checkPath checks every skill that a path holds.
func checkPath(c *cobra.Command, path string) ([]checkedSkill, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && !strings.EqualFold(filepath.Ext(path), ".md") {
		return checkArchive(c, path)
	}
	dirs, err := knack.FindSkills(path)
	if err != nil {
		return nil, err
	}
	var all []checkedSkill
	for _, dir := range dirs {
		all = append(all, checkSkill(c, dir, dir))
	}
	return all, nil
}

func checkSkill(c *cobra.Command, dir, shown string) checkedSkill {
	s, problems := knack.Check(c.Context(), dir)
	if s != nil {
		for _, p := range engine.HookProblems(s) {
			p.Path = filepath.Join(dir, filepath.Base(p.Path))
			problems = append(problems, p)
		}
	}
	r := checkedSkill{Path: shown, OK: true, Problems: problems}
	if s != nil {
		r.Name = s.Label
	}
	if r.Problems == nil {
		r.Problems = []knack.Problem{}
	}
	for i, p := range problems {
		r.Problems[i].Path = strings.Replace(p.Path, dir, shown, 1)
		r.OK = r.OK && p.Severity != knack.Error
	}
	return r
}

// checkArchive unpacks a .skill file to a directory that is removed after.
func checkArchive(c *cobra.Command, file string) ([]checkedSkill, error) {
	tmp, err := os.MkdirTemp("", "knack-check-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	dir, err := skillzip.Unpack(file, tmp)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return []checkedSkill{checkSkill(c, dir, file)}, nil
}

func printChecked(c *cobra.Command, all []checkedSkill) {
	out := c.OutOrStdout()
	counts := map[knack.Severity]int{}
	for _, s := range all {
		for _, p := range s.Problems {
			counts[p.Severity]++
			place := p
			place.Message = string(p.Severity) + ": " + p.Message + " (" + p.Code + ")"
			fmt.Fprintln(out, plain.Line(place.String()))
			if p.Hint != "" && p.Severity != knack.Info {
				fmt.Fprintln(out, "  hint: "+plain.Line(p.Hint))
			}
		}
	}
	fmt.Fprintf(out, "%s: %s, %s, %d infos\n", count(len(all), "skill"), count(counts[knack.Error], "error"), count(counts[knack.Warn], "warning"), counts[knack.Info])
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
