package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/engine/part/reads"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/session"
)

// Runs that start later, or below a command of another session, inherit what was given and known where they began.

// trustHere reads what --trust would trust in the working directory.
func trustHere(ctx context.Context) (engine.TrustReport, error) {
	dir, err := os.Getwd()
	if err != nil {
		return engine.TrustReport{}, err
	}
	r, err := engine.ReadTrust(ctx, nil, dir, false, part.All())
	return r, errors.Join(err, r.Unread)
}

// withContent binds the files of settings and of MCP servers that arguments name to what they have now: what a later
// run is allowed must not depend on a file that an earlier one could write. Relative names are below dir; "": below the
// working directory.
func withContent(dir string, args []string) (bound []string, err error) {
	bound = slices.Clone(args)
	for i, arg := range args {
		name, path, _ := strings.Cut(arg, "=")
		if name != "--settings" && name != "--mcp-config" || strings.HasPrefix(strings.TrimSpace(path), "{") {
			continue
		}
		if !filepath.IsAbs(path) && dir != "" {
			path = filepath.Join(dir, path)
		}
		if path, err = filepath.Abs(path); err != nil {
			return bound, err
		}
		data, err := regular.ReadNamed(path, maxGiven)
		if err != nil {
			return bound, fmt.Errorf("%s: %w", name, err)
		}
		bound[i] = name + "=" + path
		bound = append(bound, "--given="+config.Digest(data)+" "+path)
	}
	return bound, nil
}

// maxGiven limits a file that a flag names, in bytes.
const maxGiven = 16 << 20

// boundArgs adds to the arguments of later runs what binds them: the limits of the session in whose command this runs,
// also if it fails, and what --trust is given for, if they have it: what it was given for in this run, which checkTrust
// has compared; "": what is there now.
func boundArgs(ctx context.Context, args []string, given string) ([]string, error) {
	args, err := withContent("", args)
	if err != nil {
		return args, err
	}
	for _, text := range workspace.FindAbove().Limits {
		args = append(args, "--above="+text)
	}
	if !slices.Contains(args, "--trust=true") {
		return args, nil
	}
	if given != "" {
		return append(args, "--trust-content="+given), nil
	}
	r, err := trustHere(ctx)
	if err != nil {
		return args, fmt.Errorf("what --trust is for cannot be read: %w", err)
	}
	return append(args, "--trust-content="+r.Content()), nil
}

// checkTrust takes --trust from a run if there is something that it was not given for: a schedule runs for months, and
// the user has looked once.
func checkTrust(c *cobra.Command, content string) error {
	if !c.Flags().Changed("trust-content") {
		return nil
	}
	if r, err := trustHere(c.Context()); err == nil && r.Within(content) {
		return nil
	}
	fmt.Fprintf(c.ErrOrStderr(), "knack: warn: --trust does not count in this run: what it was given for has changed\n  %s\n",
		"try: knack trust, or start the batch or add the schedule again")
	return c.Flags().Set("trust", "false")
}

// hiddenAbove reports whether a command has removed what it knew of its session.
func hiddenAbove() bool { return workspace.FindAbove().Hidden }

// markedTask returns a task with what a session may have read whose command runs this program, if one does.
func markedTask(t batch.Task) batch.Task {
	if workspace.InCommand() {
		return t.Marked(session.Unknown())
	}
	return t
}

// markSession marks a session that a command of another session has started as having read what that one may have read.
func markSession(s *engine.Session) {
	if workspace.InCommand() {
		reads.Inherit(s, session.Unknown())
	}
}
