package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
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
	"github.com/knack-agent/knack/internal/leaf/skillzip"
	"github.com/knack-agent/knack/sources"
)

func skillPackCommand() *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "pack PATH",
		Short: "Write a skill as one .skill file",
		Long: `Write a skill as one .skill file: a zip archive that contains the skill's
directory. Hidden files, node_modules and __pycache__ are left out; a link that
leads out of the skill is refused. The same files always give the same archive.

PATH is a skill, or a .skill file to write again (with the skill's directory or
SKILL.md at its top). A skill with errors is not packed.`,
		Example: "  knack skill pack .claude/skills/pdf\n  knack skill pack old.skill -o pdf.skill",
		Args:    exactly(1, "knack skill pack .claude/skills/pdf"),
		RunE: func(c *cobra.Command, args []string) error {
			return packSkill(c, args[0], output)
		},
	}
	resultJSON(c)
	c.Flags().StringVarP(&output, "output", "o", "", "the file to write (default NAME.skill)")
	return c
}

func packSkill(c *cobra.Command, path, output string) error {
	name, files, err := packed(path)
	if err != nil {
		return &engine.Error{Err: fmt.Errorf("skill pack: %s: %w", path, err), Hint: cmp.Or(pathHint(c, path),
			"knack skill pack PATH: a skill's directory or a .skill file")}
	}
	found, err := skillsIn(path)
	if err != nil {
		return fmt.Errorf("skill pack: %w", err)
	}
	var checked []checkedSkill
	for s, err := range checkAll(c, found) {
		if err != nil {
			return fmt.Errorf("skill pack: %w", err)
		}
		checked = append(checked, s)
	}
	if len(checked) != 1 || !checked[0].OK {
		for _, s := range checked {
			for _, p := range s.Problems {
				if p.Severity == knack.Error {
					fmt.Fprintln(c.ErrOrStderr(), plain.Line(p.String()))
				}
			}
		}
		return &engine.Error{Err: fmt.Errorf("skill pack: %s breaks the specification", path), Hint: "knack skill check " +
			path}
	}
	if output == "" {
		output = name + ".skill"
	}
	var archive bytes.Buffer
	if err := skillzip.Write(&archive, name, files); err != nil {
		return fmt.Errorf("skill pack: %w", err)
	}
	// An existing file is never overwritten; an incomplete one is removed.
	err = outfile.Write(sources.Root("."), output, archive.Bytes(), 0o666, false)
	if errors.Is(err, fs.ErrExist) {
		return &engine.Error{Err: fmt.Errorf("skill pack: %s is already there", output),
			Hint: "remove it, or name another file with -o"}
	}
	if err != nil {
		return fmt.Errorf("skill pack: %w", err)
	}
	line := fmt.Sprintf("%s: %s, %d bytes", plain.Line(output), count(len(files), "file"), archive.Len())
	v := map[string]any{"name": name, "path": output, "files": len(files), "bytes": archive.Len()}
	if err := printResult(c, c.OutOrStdout(), line, v); err != nil {
		return err
	}
	return nil
}

// packed reads a skill's files from its directory or an archive.
func packed(path string) (name string, files []extract.File, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", nil, errors.Unwrap(err)
	}
	if !info.IsDir() {
		if strings.EqualFold(filepath.Base(path), "SKILL.md") {
			return packed(filepath.Dir(path))
		}
		return skillzip.Read(path)
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", nil, err
	}
	files, err = skillzip.Files(path)
	return filepath.Base(abs), files, err
}
