package cli

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/engine/project/install"
	"github.com/knack-agent/knack/internal/leaf/outfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/skillzip"
	"github.com/knack-agent/knack/sources"
)

func skillPublishCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "publish --index DIR SKILL…",
		Short: "Write skills and their index, for any static web server",
		Long: `Write skills and their index into DIR/.well-known/agent-skills, with a digest of each:
any web server that serves DIR is then a source for knack skill add. The skills that the
index has already stay. A skill with errors is not published.`,
		Example: "  knack skill publish --index public .claude/skills/pdf",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if dir == "" {
				return engine.Usagef("knack skill publish --index DIR SKILL", "--index is missing")
			}
			at := filepath.Join(dir, ".well-known", "agent-skills")
			base := sources.Root(".")
			if err := outfile.Mkdir(base, at, 0o755); err != nil {
				return err
			}
			file := filepath.Join(at, "index.json")
			return outfile.Update(base, file, 0o644, func(old []byte) ([]byte, error) {
				index := install.Index{Schema: install.IndexSchema}
				if len(old) > 0 {
					if err := json.Unmarshal(old, &index); err != nil {
						return nil, fmt.Errorf("skill publish: %s: %w", file, err)
					}
				}
				for _, path := range args {
					entry, err := publishSkill(c, path, at)
					if err != nil {
						return nil, fmt.Errorf("skill publish: %s: %w", plain.Line(path), err)
					}
					index.Skills = slices.DeleteFunc(index.Skills, func(k install.IndexSkill) bool { return k.Name == entry.Name })
					index.Skills = append(index.Skills, entry)
					fmt.Fprintf(c.OutOrStdout(), "%s: %s\n", entry.Name, entry.Digest)
				}
				sort.SliceStable(index.Skills, func(i, j int) bool { return index.Skills[i].Name < index.Skills[j].Name })
				data, err := json.MarshalIndent(index, "", "  ")
				return append(data, '\n'), err
			})
		},
	}
	c.Flags().StringVar(&dir, "index", "", "the `DIR` that a web server serves")
	return c
}

// publishSkill writes the archive of a skill, with SKILL.md at its top, and returns its entry.
func publishSkill(c *cobra.Command, path, dir string) (install.IndexSkill, error) {
	k, problems := knack.Check(c.Context(), path)
	for _, p := range problems {
		if p.Severity == knack.Error {
			return install.IndexSkill{}, p
		}
	}
	if k == nil || !plugin.ValidName(k.Label) {
		return install.IndexSkill{}, errors.New("it has no name that can be used")
	}
	_, files, err := packed(path)
	if err != nil {
		return install.IndexSkill{}, err
	}
	var zip bytes.Buffer
	if err := skillzip.Write(&zip, "", files); err != nil {
		return install.IndexSkill{}, err
	}
	sum := sha256.Sum256(zip.Bytes())
	name := k.Label + ".zip"
	if err := outfile.Write(sources.Root("."), filepath.Join(dir, name), zip.Bytes(), 0o644, true); err != nil {
		return install.IndexSkill{}, err
	}
	return install.IndexSkill{Name: k.Label, Type: "archive", Description: k.Description,
		URL: "/.well-known/agent-skills/" + name, Digest: "sha256:" + hex.EncodeToString(sum[:])}, nil
}
