package cli

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/extract"
	"github.com/knack-agent/knack/internal/leaf/outfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/sources"
)

//go:embed skilltemplate
var skillTemplate embed.FS

func skillNewCommand() *cobra.Command {
	var parent string
	c := &cobra.Command{
		Use:   "new NAME",
		Short: "Create a skill with a SKILL.md to fill in",
		Long: `Create a skill: a SKILL.md to fill in, an example each of a script, a reference and an
asset, and in evals three queries and a task to try it with (knack skill test).
Existing files are never changed.`,
		Example: "  knack skill new release-notes\n  knack skill new release-notes --path ~/.claude/skills",
		Args:    exactly(1, "knack skill new release-notes"),
		RunE: func(c *cobra.Command, args []string) error {
			return newSkill(c, args[0], parent)
		},
	}
	resultJSON(c)
	c.Flags().StringVar(&parent, "path", ".claude/skills", "the directory in which the skill is created")
	return c
}

func newSkill(c *cobra.Command, name, parent string) error {
	if why := knack.CheckName(name); why != "" {
		return engine.Usagef("use a-z, 0-9 and single hyphens: knack skill new my-skill", "the name %q %s", name, why)
	}
	var files []extract.File
	title := plain.Capital(strings.ReplaceAll(name, "-", " "))
	err := fs.WalkDir(skillTemplate, "skilltemplate", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := skillTemplate.ReadFile(p)
		text := strings.NewReplacer("{{name}}", name, "{{title}}", title).Replace(string(data))
		rel := strings.TrimPrefix(p, "skilltemplate/")
		files = append(files, extract.File{Path: rel, Data: []byte(text), Script: strings.HasPrefix(rel, "scripts/")})
		return err
	})
	if err != nil {
		return err
	}
	root, err := outfile.Dir(sources.Root("."), parent, 0o777)
	if err != nil {
		return fmt.Errorf("skill new: %w", err)
	}
	defer root.Close()
	dir := filepath.Join(parent, name)
	if err := extract.Files(root, name, files); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return &engine.Error{Err: fmt.Errorf("skill new: %s is already there", plain.Line(dir)), Hint: "knack skill check " +
				plain.Line(dir)}
		}
		return fmt.Errorf("skill new: %w", err)
	}
	path := filepath.Join(dir, "SKILL.md")
	if err := printResult(c, c.OutOrStdout(), plain.Line(path),
		map[string]string{"name": name, "dir": dir, "path": path}); err != nil {
		return err
	}
	nextSteps(c.ErrOrStderr(), name, plain.Line(dir))
	return nil
}

// nextSteps prints the commands to try after a skill was created.
func nextSteps(w io.Writer, name, dir string) {
	step := func(what, command string) { fmt.Fprintf(w, "  %-8s %s\n", what, command) }
	fmt.Fprintln(w, "next steps:")
	step("edit", filepath.Join(dir, "SKILL.md"))
	step("check", "knack skill check "+dir)
	step("test", "knack skill test "+dir)
	step("try", "knack --skill "+dir+" '/"+name+"'") // without trust, which each change of the file would end
	cwd, err := os.Getwd()
	abs, _ := filepath.Abs(dir)
	if err == nil && filepath.Base(filepath.Dir(abs)) == "skills" && subpath.Contains(sources.Root(cwd), abs) {
		step("trust", "knack trust    # at the end: a project's skills are used once you trust it")
	}
}
