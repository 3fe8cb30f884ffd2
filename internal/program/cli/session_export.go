package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/command"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/session"
)

// formatClaude is the format of Claude Code's transcripts.
const formatClaude = "claude"

func sessionExportCommand() *cobra.Command {
	var format, out string
	overwrite := false
	c := &cobra.Command{
		Use:   "export ID",
		Short: "Write a session as a page, as Markdown, as JSON lines, or for Claude Code",
		Long: `Write a session as one self-contained HTML page (html), as Markdown (md), or as
JSON lines that "knack session import" reads back (jsonl). Only the current branch
is written.

--format claude writes copies with new IDs, as transcripts that programs for Claude Code
read, into DIR/projects/: "export --format claude DIR" of all sessions of this directory,
"export --format claude ID -o DIR" of one. DIR is such a program's CLAUDE_CONFIG_DIR.

Only you can read the file: a session contains everything that was read and
written in it, including secrets. Check it before you pass it on.`,
		Args: exactly(1, "knack session list"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case format == formatClaude && (out == "-" || overwrite):
				return engine.Usagef("knack session export --format claude DIR",
					"--format claude writes new files into a directory")
			case format == formatClaude && out == "":
				return exportClaude(c, args[0], "")
			case format == formatClaude:
				return exportClaude(c, out, args[0])
			}
			log, err := readSession(c, args[0])
			if err != nil {
				return err
			}
			x, err := command.Export{Format: format, Path: out, Replace: overwrite, Version: version(),
				Summary: part.KnownTools().Line}.WithDefaults(log)
			if err != nil {
				return err
			}
			if x.Path == "-" {
				return x.Write(c.OutOrStdout(), log)
			}
			if err := x.Save(log); err != nil {
				return err
			}
			result := map[string]string{"session": log.ID(), "path": x.Path, "format": x.Format}
			return printResult(c, c.OutOrStdout(), plain.Line(x.Path), result)
		},
	}
	resultJSON(c)
	c.ValidArgsFunction = completeSession
	c.Flags().StringVar(&format, "format", "", "html, md, jsonl or claude; default: the extension of the file, or html")
	c.Flags().StringVarP(&out, "output", "o", "",
		"the file, or for claude the directory; - is stdout; default: knack-ID.html")
	c.Flags().BoolVar(&overwrite, "force", false, "replace an existing file")
	return c
}

// readSession reads a session of this directory, or a sub-agent's session, and prints what is
// damaged in it.
func readSession(c *cobra.Command, id string) (*session.Log, error) {
	dir, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	steadyGC() // reading a long session makes much garbage
	log, err := engine.Env(nil).Sessions(dir).Read(id)
	if err != nil {
		var folders []os.DirEntry
		if store := engine.Env(nil).Sessions(dir); store.Dir != "" {
			folders, _ = os.ReadDir(store.Dir)
		}
		for _, f := range folders {
			if found, e := engine.Env(nil).AgentSessions(dir, f.Name()).Read(id); f.IsDir() && e == nil {
				log, err = found, nil
			}
		}
	}
	if err != nil {
		return nil, &engine.Error{Err: err, Hint: "knack session list"}
	}
	for _, d := range log.Damage() {
		fmt.Fprintln(c.ErrOrStderr(), "knack: warn:", plain.Line(d))
	}
	return log, nil
}

func sessionForkCommand() *cobra.Command {
	at := ""
	c := &cobra.Command{
		Use:   "fork ID",
		Short: "Copy a session into a new one and print its ID",
		Long: `Copy the current branch of a session into a new one and print its ID. With --at, the
copy ends with that entry; "knack session show ID --json" shows the numbers of the
entries.`,
		Args: exactly(1, "knack session list"),
		RunE: func(c *cobra.Command, args []string) error {
			log, err := readSession(c, args[0])
			if err != nil {
				return err
			}
			if at != "" {
				n, err := strconv.Atoi(at)
				if err != nil || n < 1 {
					return engine.Usagef("knack session show "+args[0]+" --json", "--at %q is not the number of an entry", at)
				}
				if err := log.Move(n); err != nil {
					return &engine.Error{Err: err, Hint: "knack session show " + args[0] + " --json"}
				}
			}
			id, err := forkSession(log)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), id)
			return err
		},
	}
	c.ValidArgsFunction = completeSession
	c.Flags().StringVar(&at, "at", "", "the `number` of the last entry to copy")
	return c
}

// forkSession copies the current branch of log into a new session of the same directory.
func forkSession(log *session.Log) (id string, err error) {
	if log.Leaf() == 0 {
		return "", errors.New("there is nothing to copy yet")
	}
	to, err := engine.Env(nil).Sessions(log.Header().Dir).Fork(log, "")
	if err != nil {
		return "", err
	}
	return to.ID(), to.Close()
}
