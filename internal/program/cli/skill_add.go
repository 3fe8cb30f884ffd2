package cli

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

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

func skillAddCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "add SOURCE [NAME]",
		Short: "Install a skill, after showing what it asks for",
		Long: `Install a skill, after showing what it asks for. SOURCE is
  a directory, a .skill file, or the address of a .skill, .zip or .tar.gz; NAME is
    the skill or its directory in a directory
  the address of a Git repository (#REF for a branch, tag or commit); NAME is
    the skill's directory in it
  a site with /.well-known/agent-skills/index.json; NAME is the skill

#sha256=HEX after the address of an archive is what it must have. Every file is
recorded in skills.lock, and verified when the skill is loaded and invoked.`,
		Example: `  knack skill add pdf.skill
  knack skill add https://example.com pdf
  knack skill add https://example.com/skills.git#v2 skills/pdf`,
		Args: cobra.RangeArgs(1, 2),
	}
	return withInstaller(c, func(x *installer, args []string) error {
		name := ""
		if len(args) == 2 {
			name = args[1]
		}
		given, err := skillSource(args[0], name)
		if err != nil {
			return err
		}
		return x.skill(given, "")
	})
}

// skillSource reads what the user typed for a skill.
func skillSource(arg, name string) (install.Given, error) {
	g := install.Given{Typed: true}
	if info, err := os.Stat(arg); err == nil {
		abs, err := filepath.Abs(arg)
		g.Source = plugin.Source{Kind: plugin.Path, Path: abs}
		switch {
		case err != nil || name == "":
		case info.IsDir():
			g.Source.Path, err = skillIn(abs, name)
		default:
			err = engine.Usagef("unzip it, then knack skill add DIR "+plain.Line(name),
				"%s: a skill in a file cannot be named", plain.Line(arg))
		}
		if !info.IsDir() {
			g.Kind = plugin.Archive
		}
		return g, err
	}
	address, part, _ := strings.Cut(arg, "#")
	u, err := url.Parse(address)
	if err == nil && (u.Scheme == "https" || u.Scheme == "http") {
		switch lower := strings.ToLower(u.Path); {
		case hasArchiveName(lower):
			g.Source = plugin.Source{Kind: plugin.Archive, URL: address, Path: name,
				Digest: strings.ToLower(strings.TrimPrefix(part, "sha256="))}
			return g, nil
		case strings.Trim(lower, "/") == "", strings.HasSuffix(lower, "/index.json"):
			if name == "" {
				return g, engine.Usagef("knack skill add "+plain.Line(address)+" NAME", "%s has several skills: which one?",
					plain.Line(address))
			}
			g.Source = plugin.Source{Kind: plugin.Index, URL: address, Skill: name}
			return g, nil
		}
	}
	g, err = typedSource(arg)
	g.Source.Path = name
	return g, err
}

// noSkill is the error about a tree without a SKILL.md at its top.
func (x *installer) noSkill(dir string) error {
	source := plain.Line(x.c.Flags().Arg(0))
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	found := skillDirs(root.FS())
	switch p := plugin.Read(plugin.FS(root), plugin.Options{}); {
	case p.Manifest != "":
		return &engine.Error{Err: errors.New("it is a plugin, not a skill"), Hint: "knack plugin add " + source}
	case len(found) == 0:
		return &engine.Error{Err: errors.New("there is no SKILL.md in it"), Hint: "knack skill new NAME, to write one"}
	case len(found) == 1:
		return &engine.Error{Err: errors.New("there is no SKILL.md at its top"),
			Hint: "knack skill add " + source + " " + plain.Line(found[0])}
	default:
		hint := "knack skill add " + source + " " + plain.Line(found[0])
		if !p.IsEmpty() {
			hint += "; knack plugin add " + source + " adds them all"
		}
		return &engine.Error{Err: fmt.Errorf("there is no SKILL.md at its top, but in %s", plain.List(found, 8)), Hint: hint}
	}
}

// skill fetches a skill, shows it, asks, and installs it. want is the name that it must have; "": any.
func (x *installer) skill(given install.Given, want string) error {
	st, err := x.stage(target{given: given, id: want}, "skill")
	if err != nil {
		return err
	}
	defer st.Close()
	k, problems := knack.Check(x.c.Context(), st.Dir)
	if k == nil {
		return x.noSkill(st.Dir)
	}
	name := cmp.Or(k.Label, want, placeName(given))
	if !plugin.ValidName(name) {
		return fmt.Errorf("its name %q cannot be used", plain.Line(name))
	}
	if want != "" && name != want {
		return fmt.Errorf("it is now called %s: knack skill add installs it", plain.Line(name))
	}
	st.Plugin = &plugin.Plugin{Description: k.Description, Skills: []plugin.Place{{Path: ".", Name: name,
		Fixed: true}}}
	done, err := x.install(st, name, "", func() install.Page {
		page := install.Describe(x.c.Context(), st.Plugin, st.Dir)
		page.Problems = slices.DeleteFunc(problems, func(x knack.Problem) bool {
			return x.Severity != knack.Error || // its directory is a temporary one
				x.Code == knack.CodeNameDirMismatch || x.Code == knack.CodeNameMissing
		})
		return page
	})
	if err == nil && done {
		fmt.Fprintf(x.c.OutOrStdout(), "the skill %s is installed\n", name)
	}
	return err
}

// placeName is the name of the directory, file or entry that a skill comes from.
func placeName(g install.Given) string {
	if g.Skill != "" {
		return g.Skill
	}
	name := path.Base(filepath.ToSlash(cmp.Or(g.Source.Path, g.URL)))
	for _, ext := range []string{".skill", ".zip", ".tar.gz", ".tgz", ".git"} {
		name = strings.TrimSuffix(name, ext)
	}
	return name
}

func skillRemoveCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove an installed skill",
		Example: "  knack skill remove pdf",
		Args:    exactly(1, "knack skill remove NAME"),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := userStore()
			if err != nil {
				return err
			}
			if strings.Contains(args[0], "@") {
				return engine.Usagef("knack plugin remove "+plain.Line(args[0]), "%s is a plugin", plain.Line(args[0]))
			}
			if err := s.Remove(args[0]); err != nil {
				return &engine.Error{Err: err, Hint: "knack skill verify"}
			}
			fmt.Fprintf(c.OutOrStdout(), "the skill %s was removed\n", plain.Line(args[0]))
			return nil
		},
	}
}

func skillUpdateCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "update [NAME]…",
		Short: "Fetch installed skills again, and show what changed before it is installed",
		Long: `Fetch installed skills again, and show what changed before it is installed. Without a
name, all are updated. --rollback returns to the version before the last update.`,
		Example: "  knack skill update\n  knack skill update pdf --rollback",
	}
	all := func(lock *install.Lock) []string { return install.IDs(lock.Skills) }
	return updater(c, all, func(x *installer, name string) error {
		it := x.lock.Skills[name]
		if it == nil {
			return errors.New("it is not installed")
		}
		return x.skill(install.Given{Source: it.Source, Typed: true}, name)
	})
}

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
				slices.SortFunc(index.Skills, func(a, b install.IndexSkill) int { return strings.Compare(a.Name, b.Name) })
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
