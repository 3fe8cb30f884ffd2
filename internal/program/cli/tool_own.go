package cli

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/own"
	"github.com/knack-agent/knack/internal/leaf/outfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/sources"
)

//go:embed tooltemplate
var toolTemplate embed.FS

// toolLanguages are those for which there is a template, with the suffix of a program.
var toolLanguages = [...]struct{ name, suffix string }{{"sh", ""}, {"python", ""}, {"node", ""}, {"go", ".go"}}

func toolNewCommand() *cobra.Command {
	var language string
	var user bool
	c := &cobra.Command{
		Use:   "new NAME",
		Short: "Create a tool of your own, which works",
		Long: `Create a tool of your own: a program that works, in .knack/tools of the project or,
with --user, in your configuration directory. Existing files are never changed.
` + "`knack help tools`" + ` says what a tool gets and returns.`,
		Example: "  knack tool new line-count\n  knack tool new line-count --lang python --user",
		Args:    exactly(1, "knack tool new line-count"),
		RunE:    func(c *cobra.Command, args []string) error { return newTool(c, args[0], language, user) },
	}
	resultJSON(c)
	c.Flags().StringVar(&language, "lang", "sh", "sh, python, node or go")
	c.Flags().BoolVar(&user, "user", false, "yours, for all projects")
	return c
}

func newTool(c *cobra.Command, name, language string, user bool) error {
	i := slices.IndexFunc(toolLanguages[:], func(l struct{ name, suffix string }) bool { return l.name == language })
	if i < 0 {
		return engine.Usagef("knack tool new "+plain.Line(name)+" --lang sh", "there is no template for %q: there are sh, "+
			"python, node and go", language)
	}
	if err := own.CheckName(name); err != nil {
		return engine.Usagef("knack tool new line-count", "%w", err)
	}
	p, err := engine.Load(c.Context(), new(projectFlags).options())
	if err != nil {
		return err
	}
	if names := p.Brought.Names(); slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) }) {
		return engine.Usagef("knack tool list", "Knack has a tool %s", name)
	}
	files := map[string][]byte{}
	for from, to := range map[string]string{language: name + toolLanguages[i].suffix, language + ".json": name + ".json"} {
		data, err := toolTemplate.ReadFile("tooltemplate/" + from)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		files[to] = []byte(strings.ReplaceAll(string(data), "{{name}}", name))
	}
	base, dir := sources.Root("."), filepath.Join(".knack", "tools")
	if user {
		base, dir = p.Brought.User, filepath.Join(p.Brought.User, "tools")
	}
	root, err := outfile.Dir(base, dir, 0o777)
	if err != nil {
		return fmt.Errorf("tool new: %w", err)
	}
	defer root.Close()
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if err := writeNew(root, file, files[file]); errors.Is(err, fs.ErrExist) {
			return &engine.Error{Err: fmt.Errorf("tool new: %s is already there", plain.Line(filepath.Join(dir, file))),
				Hint: "knack tool check " + plain.Line(name)}
		} else if err != nil {
			return fmt.Errorf("tool new: %w", err)
		}
	}
	path := filepath.Join(dir, name+toolLanguages[i].suffix)
	if err := printResult(c, c.OutOrStdout(), plain.Line(path), map[string]string{"name": name, "path": path}); err != nil {
		return err
	}
	w := c.ErrOrStderr()
	fmt.Fprintln(w, "next steps:")
	fmt.Fprintf(w, "  %-8s %s\n", "edit", plain.Line(path))
	if !user {
		fmt.Fprintf(w, "  %-8s %s\n", "trust", "knack trust    # after each change: a project's tools run once you trust them")
	}
	fmt.Fprintf(w, "  %-8s %s\n", "try", `knack tool run `+name+` '{"file": "README.md"}'`)
	return nil
}

// writeNew writes a file that must not be there yet. One without a suffix is a program.
func writeNew(root *os.Root, name string, data []byte) error {
	mode := fs.FileMode(0o666)
	if filepath.Ext(name) == "" {
		mode = 0o777
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// unapproved returns the error for a tool of the project that is not trusted; nil: there is none of the name.
func unapproved(b engine.Brought, name string) error {
	_, problems := own.Find(b)
	for _, p := range problems {
		found, _, _ := strings.Cut(filepath.Base(p.Path), ".")
		if found == name && (p.Code == knack.CodeUntrusted || p.Code == knack.CodeChanged) {
			return &engine.Error{Err: fmt.Errorf("tool run: %s: %s", plain.Line(p.Path), plain.Line(p.Message)),
				Hint: "knack trust --show\nknack tool run --trust " + name + " …, for this call", Exit: engine.ExitRefused}
		}
	}
	return nil
}

func toolCheckCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "check [NAME]",
		Short: "Check the tools and commands of your own",
		Long: `Check the tools and commands of your own, or those with a name: what is wrong with their
definitions, and whether they are approved. Nothing of them runs.

The exit code is 1 if one cannot be used.`,
		Example: "  knack tool check line-count",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := engine.Load(c.Context(), new(projectFlags).options())
			if err != nil {
				return err
			}
			return checkOwnTools(c, p.Brought, strings.Join(args, ""))
		},
	}
	return c
}

// checkOwnTools prints the tools and commands, or those with a name, and what is wrong with them.
func checkOwnTools(c *cobra.Command, b engine.Brought, name string) error {
	programs, problems := own.Find(b)
	tools := len(programs)
	programs, problems = slices.Concat(programs, own.Commands(b)), slices.Clone(problems)
	slash := map[*own.Program]string{}
	for _, p := range programs[tools:] {
		slash[p] = "/"
	}
	is := func(path string) bool {
		found, _, _ := strings.Cut(filepath.Base(path), ".")
		return name == "" || found == name
	}
	programs = slices.DeleteFunc(programs, func(p *own.Program) bool { return !is(p.Path) })
	problems = slices.DeleteFunc(problems, func(p knack.Problem) bool {
		return !is(p.Path) && p.Code != knack.CodeUntrusted && p.Code != knack.CodeChanged // they concern all of a directory
	})
	if name != "" && len(programs)+len(problems) == 0 {
		return &engine.Error{Err: fmt.Errorf("tool check: there is no tool or command %s", plain.Line(name)),
			Hint: "knack tool new " + plain.Line(name)}
	}
	for _, p := range programs {
		fmt.Fprintf(c.OutOrStdout(), "%s%s  %s\n  %s\n", slash[p], p.Name, plain.Line(p.Path), plain.Line(p.Description()))
	}
	for _, p := range problems {
		fmt.Fprintf(c.ErrOrStderr(), "knack: %s: %s: %s (%s)\n", p.Severity, plain.Line(p.Path), plain.Line(p.Message), p.Hint)
	}
	if len(problems) > 0 {
		return &engine.Error{Err: errSilent{}, Exit: engine.ExitFailed}
	}
	return nil
}
