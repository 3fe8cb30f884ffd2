package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

func skillCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "skill",
		Short: "Find, read, check and explain skills",
		Args:  noArguments,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(
		skillListCommand(),
		skillFindCommand(),
		skillShowCommand(),
		skillWhyCommand(),
		skillBudgetCommand(),
		skillPinCommand(),
		skillNewCommand(),
		skillCheckCommand(),
		skillPackCommand(),
		skillVerifyCommand(),
		skillDiffCommand(),
		skillAcceptCommand(),
	)
	return c
}

// skillJSON is a skill as `skill show --json` prints it.
type skillJSON struct {
	Name            string           `json:"name"`
	CommandName     string           `json:"commandName"`
	Description     string           `json:"description"`
	WhenToUse       string           `json:"whenToUse"`
	Listing         string           `json:"listing"` // what the model sees; "": nothing
	Body            *string          `json:"body,omitempty"`
	AllowedTools    []string         `json:"allowedTools"`
	DisallowedTools []string         `json:"disallowedTools"`
	Arguments       []string         `json:"arguments"`
	Paths           []string         `json:"paths"`
	Hooks           json.RawMessage  `json:"hooks"` // an object or a list; null: none
	Fields          fields           `json:"fields"`
	Origin          originJSON       `json:"origin"`
	Path            string           `json:"path"`
	Resources       []string         `json:"resources"`
	Tokens          knack.Tokens     `json:"tokens"`
	State           knack.SkillState `json:"state"`
	Loaded          bool             `json:"loaded"`
	Uses            int              `json:"uses"`     // by this user, in all projects
	LastUsed        *time.Time       `json:"lastUsed"` // null: never
	Problems        []knack.Problem  `json:"problems"`
}

type originJSON struct {
	Kind  knack.SourceKind `json:"kind"`
	Label string           `json:"label,omitempty"`
	ID    string           `json:"id"`
	Dir   string           `json:"dir"`
	Shell bool             `json:"shell"` // inline commands may run if the rules allow them
	Trust string           `json:"trust"`
}

// fields are frontmatter fields, printed as a JSON object in their original order.
type fields []knack.Field

func (fs fields) MarshalJSON() ([]byte, error) {
	var b strings.Builder
	b.WriteByte('{')
	for i, f := range fs {
		if i > 0 {
			b.WriteByte(',')
		}
		key, err := json.Marshal(f.Key)
		if err != nil {
			return nil, err
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(f.Value)
	}
	b.WriteByte('}')
	return []byte(b.String()), nil
}

// A catalogView is a Catalog with related data that the commands show.
type catalogView struct {
	*knack.Catalog
	project *engine.Project
	view    knack.View
	all     []knack.Problem // including those of the settings
	used    engine.SkillUsage

	lines    map[*knack.Skill]knack.Line // for json; built on first use
	problems map[string][]knack.Problem
}

// index builds the tables that json needs.
func (c *catalogView) index() {
	if c.lines != nil {
		return
	}
	c.lines, c.problems = map[*knack.Skill]knack.Line{}, map[string][]knack.Problem{}
	for _, l := range c.Listing(c.view).Entries {
		c.lines[l.Skill] = l
	}
	for _, p := range c.all {
		c.problems[p.Path] = append(c.problems[p.Path], p)
	}
}

// json describes an entry, including its body if withBody is set.
func (c *catalogView) json(ctx context.Context, e knack.Candidate, withBody bool) skillJSON {
	c.index()
	j := skillJSON{
		Name: e.Name(), CommandName: e.Name(), Path: e.Path, State: c.State(e, c.view), Loaded: e.Skill != nil,
		AllowedTools: []string{}, DisallowedTools: []string{}, Arguments: []string{}, Paths: []string{},
		Resources: []string{}, Fields: fields{},
		Origin:   originJSON{Kind: e.Origin.Kind, Label: e.Origin.Label, Trust: engine.TrustName(e.Origin.Trust)},
		Problems: append([]knack.Problem{}, c.problems[e.Path]...),
	}
	if u, ok := c.used[e.Name()]; ok {
		j.Uses, j.LastUsed = u.Count, &u.Last
	}
	s := e.Skill
	if s == nil {
		j.Origin.Dir = filepath.Dir(e.Path)
		return j
	}
	if s.Label != "" {
		j.Name = s.Label
	}
	j.Description, j.WhenToUse, j.Listing = s.Description, s.WhenToUse, c.lines[s].Text
	j.AllowedTools = append(j.AllowedTools, s.AllowedTools...)
	j.DisallowedTools = append(j.DisallowedTools, s.DisallowedTools...)
	j.Arguments, j.Paths, j.Hooks = append(j.Arguments, s.Arguments...), append(j.Paths, s.Paths...), s.Hooks
	j.Fields = s.Fields()
	j.Origin.ID, j.Origin.Dir = s.ID, s.Dir
	j.Origin.Shell = s.Origin.Trust == knack.Trusted && s.Origin.Kind != knack.MCP
	j.Tokens = s.Tokens()
	files, err := s.Resources(ctx)
	if err != nil {
		j.Problems = append(j.Problems, knack.Problem{Code: knack.CodeUnreadable, Severity: knack.Warn, Path: s.Dir,
			Message: err.Error()})
	}
	j.Resources = append(j.Resources, files...)
	if withBody {
		body, err := shownSkill(s).Body(ctx)
		if err != nil {
			j.Problems = append(j.Problems, knack.Problem{Code: knack.CodeUnreadable, Severity: knack.Error, Path: s.Path,
				Message: err.Error()})
		}
		j.Body = &body
	}
	return j
}

// writeList writes a JSON array element by element, so that memory use does not grow with its
// length.
func writeList[T any](w io.Writer, elements iter.Seq[T]) error {
	out := bufio.NewWriter(plain.JSON(w))
	sep := "[\n  "
	var b bytes.Buffer
	enc := json.NewEncoder(&b) // shared, so that its buffers are reused
	enc.SetEscapeHTML(false)
	enc.SetIndent("  ", "  ")
	for e := range elements {
		b.Reset()
		if err := enc.Encode(e); err != nil {
			return fmt.Errorf("writing JSON: %w", err)
		}
		out.WriteString(sep)
		out.Write(bytes.TrimRight(b.Bytes(), "\n"))
		sep = ",\n  "
	}
	if sep[0] == '[' {
		out.WriteString("[]\n")
	} else {
		out.WriteString("\n]\n")
	}
	return out.Flush()
}

// resultJSON adds --json to a command that prints one result.
func resultJSON(c *cobra.Command) { c.Flags().Bool("json", false, "print the result as JSON") }

// printResult prints a result: a line on w or, with --json, v as JSON on standard output.
func printResult(c *cobra.Command, w io.Writer, line string, v any) error {
	if asJSON, err := c.Flags().GetBool("json"); err == nil && asJSON {
		return writeJSON(c.OutOrStdout(), v)
	}
	_, err := fmt.Fprintln(w, line)
	return err
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(plain.JSON(w))
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	return nil
}
