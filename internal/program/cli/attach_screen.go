package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/durable/background"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// argsHere returns the flags of a session in the background for a conversation here, with --trust only for what it was
// given for. It reports false if the session must not have them here: a file that they name has changed, or a command
// of another session gave them.
func argsHere(c *cobra.Command, s background.Session) (args []string, ok bool) {
	content, trusts := "", false
	for _, arg := range s.Batch.Args {
		name, value, _ := strings.Cut(arg, "=")
		switch name {
		case "--above":
			return nil, false
		case "--given":
			digest, path, _ := strings.Cut(value, " ")
			if data, err := regular.ReadNamed(path, maxGiven); err != nil || config.Digest(data) != digest {
				return nil, false
			}
		case "--trust-content":
			content = value
		case "--trust":
			trusts = value == "true"
		case "--name":
		default:
			args = append(args, arg)
		}
	}
	if trusts {
		r, err := engine.ReadTrust(c.Context(), nil, s.Dir, false, part.All())
		if err != nil || r.Unread != nil || !r.Within(content) {
			fmt.Fprintln(c.ErrOrStderr(), "knack: warn: --trust does not count: what it was given for has changed")
			return args, true
		}
		args = append(args, "--trust=true")
	}
	return args, true
}

// openHere continues a session that has ended in the background in this terminal.
func openHere(c *cobra.Command, s background.Session, args []string) error {
	if err := os.Chdir(s.Dir); err != nil {
		return &engine.Error{Err: err, Hint: "knack logs " + shortID(s.ID)}
	}
	root := rootCommand(append(args, "--resume="+s.ID))
	root.SetIn(c.InOrStdin())
	root.SetOut(c.OutOrStdout())
	root.SetErr(c.ErrOrStderr())
	return root.ExecuteContext(c.Context())
}
