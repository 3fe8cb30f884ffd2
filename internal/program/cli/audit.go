package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part/audit"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/gate"
)

func auditCommand() *cobra.Command {
	c := &cobra.Command{Use: "audit", Short: "Show and verify the audit file of your administrator"}
	c.AddCommand(auditShowCommand(), auditVerifyCommand())
	return c
}

// auditCalls returns what a gate outside of a session requires; nil: nothing. end is called after the last call.
func auditCalls(p *engine.Project, errs io.Writer) (require func(gate.Record) error, end func(), err error) {
	return audit.Outside(p, func(x knack.Problem) { fmt.Fprintf(errs, "knack: warn: %s\n", plain.Line(x.String())) })
}

// auditFile returns the file that is named, or else that of the managed settings.
func auditFile(c *cobra.Command, args []string) (string, error) {
	path := ""
	if len(args) > 0 {
		path = args[0]
	} else {
		p, err := engine.Load(c.Context(), new(projectFlags).options())
		if err != nil {
			return "", err
		}
		defer p.Close()
		if path, _, err = audit.Settings(p); err != nil {
			return "", err
		}
		if path == "" {
			return "", &engine.Error{Err: errors.New("the managed settings name no audit file"),
				Hint: "knack audit show FILE, or knack help telemetry", Exit: engine.ExitUsage}
		}
	}
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) { // all of it may have been rotated just now
		if old, _ := filepath.Glob(path + ".*"); len(old) > 0 {
			err = nil
		}
	}
	if err != nil {
		return "", &engine.Error{Err: fmt.Errorf("%s: %w", plain.Line(path), plainCause(err)), Hint: "knack help telemetry"}
	}
	return path, nil
}

// plainCause returns the error without the path, which stands before it.
func plainCause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func auditShowCommand() *cobra.Command {
	var asJSON, refused bool
	var session string
	var since time.Duration
	c := &cobra.Command{
		Use:   "show [flags] [FILE]",
		Short: "Print the decisions of an audit file, the oldest first",
		Example: `  knack audit show --refused --since 24h
  knack audit show --json | jq 'select(.tool == "bash")'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := auditFile(c, args)
			if err != nil {
				return err
			}
			out := plain.JSON(c.OutOrStdout())
			lines := json.NewEncoder(out)
			lines.SetEscapeHTML(false)
			for e, damage := range audit.All(path) {
				if damage != nil {
					fmt.Fprintf(c.ErrOrStderr(), "knack: warn: %s\n", plain.Line(damage.String()))
				}
				if e.N == 0 || session != "" && !strings.HasPrefix(e.Session, session) || refused && e.Verdict == "allow" ||
					refused && e.Type != audit.Decision || since > 0 && time.Since(e.Time) > since {
					continue
				}
				if asJSON {
					err = lines.Encode(e)
				} else {
					_, err = fmt.Fprintln(c.OutOrStdout(), plain.Line(auditLine(e)))
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the entries as JSON, one a line")
	c.Flags().BoolVar(&refused, "refused", false, "only what did not run")
	c.Flags().StringVar(&session, "session", "", "only the session with this `ID`, or beginning of one")
	c.Flags().DurationVar(&since, "since", 0, "only entries of the last `time`, such as 24h")
	return c
}

// auditLine describes an entry in one line of untrusted text.
func auditLine(e audit.Entry) string {
	line := e.Time.Local().Format("2006-01-02 15:04:05") + "  " + e.User + "  "
	switch e.Type {
	case audit.Begin:
		return line + "session " + e.Session + " in " + e.Dir
	case audit.Lost:
		return line + fmt.Sprintf("%d entries could not be written", e.Lost)
	}
	line += e.Verdict + "  " + e.Tool
	for _, s := range e.Subjects {
		line += "  " + s.Text
	}
	switch {
	case e.Rule != "":
		line += "  (" + e.Rule + ", " + e.Origin + ")"
	case e.Asked:
		line += "  (the user: " + e.Answer + ")"
	case e.Reason != "":
		line += "  (" + e.Reason + ")"
	}
	return line
}

func auditVerifyCommand() *cobra.Command {
	var head string
	c := &cobra.Command{
		Use:   "verify [flags] [FILE]",
		Short: "Find entries of an audit file that were changed, removed or added",
		Long: `Find entries of an audit file, and of its rotated files, that were changed, removed or added:
each has a hash of its content and that of the entry before it. What was removed at the end is
found only with --head: the hash of an entry that was the last one at some time, which this
command prints; keep it elsewhere. Lost entries, which the file itself names, are no damage.

The exit code is 1 if something is wrong.`,
		Example: `  knack audit verify
  knack audit verify --head 5f0c… /var/log/knack/ann.jsonl`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := auditFile(c, args)
			if err != nil {
				return err
			}
			entries, bad, lost, found := 0, 0, 0, head == ""
			var last audit.Entry
			for e, damage := range audit.All(path) {
				if damage != nil {
					bad++
					fmt.Fprintln(c.OutOrStdout(), plain.Line(damage.String()))
				}
				if e.Hash == "" {
					continue
				}
				entries++
				lost += e.Lost
				last = e
				found = found || e.Hash == head
			}
			if !found {
				bad++
				fmt.Fprintln(c.OutOrStdout(), "there is no entry with the hash "+plain.Line(head)+
					": the end was removed, or the file was written anew")
			}
			fmt.Fprintf(c.OutOrStdout(), "%s, %d lost, the last one %s\n", plain.Count(entries, "line"), lost, last.Hash)
			if bad > 0 {
				return &engine.Error{Err: fmt.Errorf("%s is damaged", plain.Line(path)), Exit: engine.ExitFailed}
			}
			return nil
		},
	}
	c.Flags().StringVar(&head, "head", "", "there must be an entry with this `HASH`")
	return c
}
