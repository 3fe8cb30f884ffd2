package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/secrets"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// A secretJSON is one value of a skill in what `skill secrets --json` prints. The value itself is never printed.
type secretJSON struct {
	secrets.Wanted
	State  string `json:"state"`            // given, missing or changed: the skill has changed since it was given
	Stored string `json:"stored,omitempty"` // where
}

// skillSecrets is a skill with what is stored for it.
type skillSecrets struct {
	skill *knack.Skill
	store secrets.Store
	bound secrets.Binding
	all   []secretJSON
}

func skillSecretsCommand() *cobra.Command {
	var f projectFlags
	var file, remove, keep bool
	c := &cobra.Command{
		Use:   "secrets [NAME [VARIABLE]]",
		Short: "Give a skill the keys and passwords that it wants, or list them",
		Long: `Give the commands of a skill the values that it wants: metadata.knack.env, a list of
objects with name, description, required and hosts, and userConfig of its plugin. NAME
shows them, and asks at a terminal for those that are missing; VARIABLE stores one,
which is asked for at a terminal and else read from standard input. Without NAME, what
is stored for all skills is listed. Values are never printed.

NAME may be a plugin: its userConfig is for all its skills, and for its servers, which
have ${user_config.KEY} in their definitions. Values that are no secrets are filled in
there in texts of skills and agents, and in args of hooks, too.

"knack help secrets" says which commands get a value, and for how long it is kept.`,
		Example: "  knack skill secrets report\n  pass show service | knack skill secrets report SERVICE_TOKEN\n" +
			"  knack skill secrets report SERVICE_TOKEN --remove",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 2 {
				return engine.Usagef("knack skill secrets NAME VARIABLE", "%s: too many arguments; a value is asked for, or "+
					"read from standard input", c.CommandPath())
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listSecrets(c)
			}
			if (len(args) == 2 || keep || remove) && workspace.InCommand() {
				return &engine.Error{Err: errors.New("skill secrets: a command of a session gives no secrets"),
					Hint: "run it in a terminal of your own"}
			}
			if remove && len(args) == 2 {
				if removed, err := removeSecret(c, args[0], args[1]); removed || err != nil {
					return err
				}
			}
			x, err := f.secretsOf(c, args[0])
			switch {
			case err != nil:
				return err
			case remove && len(args) == 2:
				return x.notStored(args[1])
			case remove:
				return engine.Usagef("knack skill secrets NAME VARIABLE --remove", "--remove needs a variable")
			case keep:
				return x.keep(c, file)
			case len(args) == 2:
				return x.give(c, args[1], file)
			}
			return x.show(c, file)
		},
	}
	f.register(c)
	resultJSON(c)
	c.Flags().BoolVar(&file, "file", false, "store it in a file that only you can read, not in the keyring")
	c.Flags().BoolVar(&remove, "remove", false, "forget the value of a variable")
	c.Flags().BoolVar(&keep, "keep", false, "let the skill as it is now have what it had before it changed")
	c.MarkFlagsMutuallyExclusive("remove", "keep")
	c.MarkFlagsMutuallyExclusive("remove", "file")
	return c
}

// listSecrets lists what is stored for all skills.
func listSecrets(c *cobra.Command) error {
	all, err := secrets.Open(nil).Given(secrets.Binding{})
	if err != nil {
		return err
	}
	if wantsJSON(c) {
		return writeJSON(c.OutOrStdout(), append([]secrets.Given{}, all...))
	}
	if len(all) == 0 {
		fmt.Fprintln(c.OutOrStdout(), "No skill has a secret.")
		return nil
	}
	rows := [][]string{{"SKILL", "VARIABLE", "STORED IN", "SOURCE"}}
	file := ""
	for _, g := range all {
		stored := g.Stored
		if filepath.IsAbs(stored) { // too long for a column
			file, stored = stored, "a file"
		}
		rows = append(rows, []string{cmp.Or(plain.Line(g.For.Skill), "(its plugin)"), g.Name, stored,
			plain.Line(g.For.Source)})
	}
	writeTable(c.OutOrStdout(), rows)
	if file != "" {
		fmt.Fprintf(c.OutOrStdout(), "The file is %s.\n", plain.Line(file))
	}
	return nil
}

// secretsOf finds a skill that may be used, and what is stored for it.
func (f *projectFlags) secretsOf(c *cobra.Command, name string) (*skillSecrets, error) {
	cat, err := f.load(c.Context())
	if err != nil {
		return nil, err
	}
	k := ofPlugin(cat.Project, name)
	if k == nil || cat.Skill(name) != nil {
		e, cat, err := findSkill(c.Context(), cat, name)
		if err != nil {
			return nil, err
		}
		k = cat.Skill(e.Name())
		if e.State == knack.NotTrusted {
			return nil, &engine.Error{Err: fmt.Errorf("skill secrets: %s is not trusted", plain.Line(name)),
				Hint: "knack trust"}
		}
		if k == nil || e.Skill != k {
			return nil, &engine.Error{Err: fmt.Errorf("skill secrets: %s is not in use here", plain.Line(name)),
				Hint: "knack skill why " + plain.Line(e.Name())}
		}
		if err := cat.Project.VerifySkill(k); err != nil {
			return nil, err
		}
	}
	wanted, bad := secrets.Of(k)
	if bad != nil {
		fmt.Fprintf(c.ErrOrStderr(), "knack: warn: metadata.knack.env: %s\n", plain.Line(bad.Error()))
	}
	x := &skillSecrets{skill: k, store: secrets.Open(nil)}
	if len(wanted) == 0 {
		return x, nil
	}
	if x.bound, err = secrets.BindingOf(k); err != nil {
		return nil, err
	}
	given, err := x.store.Given(x.bound)
	if err != nil {
		return nil, err
	}
	for _, w := range wanted {
		s := secretJSON{Wanted: w, State: "missing"}
		for _, g := range given {
			switch {
			case g.Name == w.Name && g.For == x.bound:
				s.State, s.Stored = "given", g.Stored
			case g.Name == w.Name && s.State == "missing":
				s.State, s.Stored = "changed", g.Stored
			}
		}
		x.all = append(x.all, s)
	}
	return x, nil
}

// ofPlugin returns what stands for all skills and servers of a plugin in use, named NAME or NAME@MARKETPLACE; nil:
// there is none.
func ofPlugin(p *engine.Project, name string) *knack.Skill {
	name, _, _ = strings.Cut(name, "@")
	for _, x := range p.Brought.Plugins {
		if x.Name == name {
			return &knack.Skill{Name: name, Dir: x.Dir, Vars: map[string]string{"CLAUDE_PLUGIN_ROOT": x.Dir},
				Origin: knack.Origin{Kind: knack.Plugin, Label: name, From: x.ID, Trust: knack.Trusted}}
		}
	}
	return nil
}

// find returns one of the values that the skill wants.
func (x *skillSecrets) find(name string) (secretJSON, error) {
	var names []string
	for _, s := range x.all {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	skill := plain.Line(x.skill.Name)
	if names == nil {
		return secretJSON{}, &engine.Error{Err: fmt.Errorf("skill secrets: %s wants none", skill),
			Hint: "the author lists them under metadata.knack.env"}
	}
	return secretJSON{}, engine.Usagef("knack skill secrets "+skill, "%s wants no %s; it wants %s", skill,
		plain.Line(name), strings.Join(names, ", "))
}

func (x *skillSecrets) give(c *cobra.Command, name string, file bool) error {
	s, err := x.find(name)
	if err != nil {
		return err
	}
	value, err := x.readSecret(c, s)
	if err != nil {
		return err
	}
	return x.put(c, s, value, file)
}

// readSecret asks for a value at a terminal, or reads all of standard input, without the end of its last line.
func (x *skillSecrets) readSecret(c *cobra.Command, s secretJSON) (value string, err error) {
	in := c.InOrStdin()
	if readsTerminal(in) {
		for _, line := range []string{s.Description, reaches(s)} {
			if line != "" {
				fmt.Fprintln(c.ErrOrStderr(), plain.Line(line))
			}
		}
		value, err = readKey(in, c.ErrOrStderr(), s.Name)
	} else {
		var data []byte
		data, err = io.ReadAll(io.LimitReader(bufio.NewReader(in), 64<<10))
		value = strings.TrimRight(string(data), "\r\n")
	}
	if err == nil && value == "" {
		err = &engine.Error{Err: errors.New("skill secrets: no value was given"),
			Hint: fmt.Sprintf("type it at a terminal, or pipe it into: knack skill secrets %s %s", plain.Line(x.skill.Name),
				s.Name)}
	}
	return value, err
}

func reaches(s secretJSON) string {
	if len(s.Hosts) == 0 {
		return ""
	}
	return "A command that has it reaches only " + strings.Join(s.Hosts, ", ") + "."
}

func (x *skillSecrets) put(c *cobra.Command, s secretJSON, value string, file bool) error {
	err := x.store.Put(x.bound, s.Wanted, value, file || s.Plain)
	skill := plain.Line(x.skill.Name)
	if errors.Is(err, engine.ErrNoKeyring) && isTerminal(c.InOrStdin()) { // what was typed is not lost
		file, err = confirm(c, "This machine has no keyring. Store it in a file that only you can read?", "")
		if err != nil || !file {
			return cmp.Or(err, errors.New("skill secrets: nothing was stored"))
		}
		err = x.store.Put(x.bound, s.Wanted, value, true)
	}
	if errors.Is(err, engine.ErrNoKeyring) {
		return &engine.Error{Err: fmt.Errorf("skill secrets: %w", err),
			Hint: "knack skill secrets " + skill + " " + s.Name + " --file, which keeps it in a file that only you can read"}
	}
	if err != nil {
		return fmt.Errorf("skill secrets: %w", err)
	}
	if err := x.store.Saw(x.skill); err != nil {
		return fmt.Errorf("skill secrets: %w", err)
	}
	at := "in the keyring"
	if file || s.Plain {
		at = "in a file that only you can read"
	}
	return printResult(c, c.ErrOrStderr(), fmt.Sprintf("%s of %s is stored %s.", s.Name, skill, at),
		map[string]string{"skill": x.skill.Name, "name": s.Name, "stored": at})
}

// removeSecret forgets a value of a skill or plugin, from whatever source, also if that is not there any more.
func removeSecret(c *cobra.Command, skill, name string) (removed bool, err error) {
	store := secrets.Open(nil)
	all, err := store.Given(secrets.Binding{})
	for _, g := range all {
		of := secrets.Binding{Skill: g.For.Skill, Source: g.For.Source}
		ofPlugin := of.Skill == "" && strings.HasPrefix(of.Source+"@", engine.PluginSource(skill)+"@")
		if g.Name == name && (of.Skill == skill || ofPlugin) {
			done, bad := store.Remove(of, name)
			removed, err = removed || done, errors.Join(err, bad)
		}
	}
	if err != nil || !removed {
		return removed, err
	}
	return true, printResult(c, c.ErrOrStderr(), fmt.Sprintf("%s of %s was removed.", name, plain.Line(skill)),
		map[string]any{"skill": skill, "name": name, "removed": true})
}

// notStored is the error for a value that is to be removed and is not there.
func (x *skillSecrets) notStored(name string) error {
	if _, err := x.find(name); err != nil {
		return err
	}
	return &engine.Error{Err: fmt.Errorf("skill secrets: no %s is stored for %s", name, plain.Line(x.skill.Name)),
		Hint: "knack skill secrets"}
}

// keep gives the skill as it is now what it had before it changed.
func (x *skillSecrets) keep(c *cobra.Command, file bool) error {
	given, err := x.store.Given(x.bound)
	if err != nil {
		return err
	}
	kept := []string{}
	for _, s := range x.all {
		i := slices.IndexFunc(given, func(g secrets.Given) bool { return g.Name == s.Name })
		if s.State != "changed" || i < 0 {
			continue
		}
		if err := x.store.Keep(given[i], x.bound, s.Wanted, file); err != nil {
			return fmt.Errorf("skill secrets: %s: %w", s.Name, err)
		}
		kept = append(kept, s.Name)
	}
	if len(kept) == 0 {
		return &engine.Error{Err: errors.New("skill secrets: nothing was given before a change"),
			Hint: "knack skill secrets " + plain.Line(x.skill.Name)}
	}
	if err := x.store.Saw(x.skill); err != nil {
		return fmt.Errorf("skill secrets: %w", err)
	}
	return printResult(c, c.ErrOrStderr(), fmt.Sprintf("%s keeps %s.", plain.Line(x.skill.Name), strings.Join(kept, ", ")),
		map[string]any{"skill": x.skill.Name, "kept": kept})
}

// offerToKeep says what has changed since the skill got a value, and lets it keep the value if the user at a terminal
// says so.
func (x *skillSecrets) offerToKeep(c *cobra.Command, file bool) (done bool, err error) {
	given, err := x.store.Given(x.bound)
	if err != nil {
		return false, err
	}
	line := "The skill has changed since it got a value"
	for _, g := range given {
		if what := x.store.Changed(x.skill, g.For); g.For != x.bound && what != "" {
			line += " (" + what + ")"
			break
		}
	}
	if !isTerminal(c.InOrStdin()) || workspace.InCommand() {
		fmt.Fprintf(c.ErrOrStderr(), "%s. To let it have it: knack skill secrets %s --keep\n", line,
			plain.Line(x.skill.Name))
		return false, nil
	}
	fmt.Fprintln(c.ErrOrStderr(), line+".")
	if done, err = confirm(c, "May it keep the value?", ""); done && err == nil {
		err = x.keep(c, file)
	}
	return done, err
}

// show shows what the skill wants, and asks at a terminal for what is missing.
func (x *skillSecrets) show(c *cobra.Command, file bool) error {
	if wantsJSON(c) {
		return writeJSON(c.OutOrStdout(), append([]secretJSON{}, x.all...))
	}
	if len(x.all) == 0 {
		fmt.Fprintln(c.OutOrStdout(), "It wants no secrets.")
		return nil
	}
	rows := [][]string{{"VARIABLE", "STATE", "REACHES", "WHAT"}}
	missing := 0
	for _, s := range x.all {
		state, hosts := s.State, strings.Join(s.Hosts, " ")
		switch {
		case state == "missing" && !s.Required:
			state = "not given"
		case state != "given":
			missing++
		}
		if hosts == "" {
			hosts = "any host"
		}
		rows = append(rows, []string{s.Name, state, hosts, plain.Line(s.Description)})
	}
	writeTable(c.OutOrStdout(), rows)
	changed := slices.ContainsFunc(x.all, func(s secretJSON) bool { return s.State == "changed" })
	if changed {
		done, err := x.offerToKeep(c, file)
		if err != nil || done {
			return err
		}
	}
	if !readsTerminal(c.InOrStdin()) || workspace.InCommand() || changed {
		if missing > 0 {
			return errSilent{}
		}
		return nil
	}
	for _, s := range x.all {
		if s.State != "missing" || !s.Required {
			continue
		}
		value, err := x.readSecret(c, s)
		if err == nil {
			err = x.put(c, s, value, file)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
