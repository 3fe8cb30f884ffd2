package own

import "github.com/knack-agent/knack/run/gate"

// onlyApproved returns an error if the command of a project's program, such as ["python3", "lib/x.py"], runs a file of
// the workspace that is not in its folder. The bytes of that folder are those that the user approved.
func onlyApproved(args []string, dir, folder string) error {
	return gate.OnlyApproved(args, dir, folder)
}
