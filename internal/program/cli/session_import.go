package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/engine/transcript"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

func sessionImportCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "import [FILE...]",
		Short: "Import transcripts of Claude Code, Pi or Knack as sessions",
		Long: `Import each transcript as a session of this directory, and print its ID. The format
is recognised by the content: Claude Code (~/.claude/projects/*/*.jsonl), Pi
(~/.pi/agent/sessions/*/*.jsonl), or Knack ("knack session export -o x.jsonl").
Without a file, it lists what Claude Code and Pi have recorded in this directory.
- is standard input. Continuing the session (knack -r ID) sends the model what the
other agent would have sent. The model and the permissions are yours, not those
of the transcript.`,
		RunE: func(c *cobra.Command, args []string) error {
			var errs []error
			made := []map[string]string{}
			asJSON := wantsJSON(c)
			if len(args) == 0 {
				return listTranscripts(c, asJSON)
			}
			for _, path := range args {
				id, err := importFile(c, path)
				if err != nil {
					errs = append(errs, plainPath(err))
					continue
				}
				if made = append(made, map[string]string{"path": path, "session": id}); !asJSON {
					fmt.Fprintln(c.OutOrStdout(), id)
				}
			}
			if asJSON {
				errs = append(errs, writeJSON(c.OutOrStdout(), made))
			}
			if err := errors.Join(errs...); err != nil {
				return &engine.Error{Err: err, Hint: "knack session import ~/.claude/projects/DIR/SESSION.jsonl"}
			}
			return nil
		},
	}
	resultJSON(c)
	return c
}

// listTranscripts prints what other programs have recorded in this directory, with the command that imports it.
func listTranscripts(c *cobra.Command, asJSON bool) error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	all := command.Transcripts(engine.Env(nil), dir)
	if asJSON {
		return writeJSON(c.OutOrStdout(), slices.Concat([]command.Transcript{}, all))
	}
	if len(all) == 0 {
		return engine.Usagef("knack session import ~/.claude/projects/DIR/SESSION.jsonl",
			"%s: which file? Neither Claude Code nor Pi has recorded a session in this directory", c.CommandPath())
	}
	rows := [][]string{{"CHANGED", "OF", "ABOUT", "IMPORT IT WITH"}}
	for _, t := range all {
		rows = append(rows, []string{t.Changed.Local().Format(time.DateTime), t.Agent, engine.Clip(t.About, 40),
			"knack session import " + plain.Line(subpath.Short(t.Path, engine.Env(nil).Home()))})
	}
	writeTable(c.OutOrStdout(), rows)
	return nil
}

// importFile imports one file as a session and prints the problems found in it.
func importFile(c *cobra.Command, path string) (id string, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	in := c.InOrStdin()
	if path != "-" {
		f, err := regular.OpenNamed(path)
		if err != nil {
			return "", err
		}
		defer f.Close()
		in = f
	}
	id, warnings, err := command.Import(engine.Env(nil).Sessions(dir), dir, in, path, part.KnownTools())
	for _, w := range warnings {
		fmt.Fprintln(c.ErrOrStderr(), "knack: warn:", w)
	}
	return id, err
}

// readTranscript reads a transcript with the tools of this program; none of them runs.
func readTranscript(in io.Reader, name string) (*transcript.Transcript, error) {
	return command.ReadTranscript(in, name, part.KnownTools())
}
