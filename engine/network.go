package engine

import (
	"time"

	"github.com/knack-agent/knack/engine/project/config"
	"github.com/knack-agent/knack/internal/leaf/secrets"
	"github.com/knack-agent/knack/run/gate"
)

// networkOf returns what the settings say about connections of commands.
func networkOf(c *config.Config) gate.Network {
	var n gate.Network
	if wait := c.Settings.Sandbox.NetworkWait; wait != nil {
		if n.Wait = time.Duration(*wait * float64(time.Second)); n.Wait <= 0 {
			n.Wait = -1
		}
	}
	_, n.Managed = c.HeldBy("sandbox.network.allowManagedDomainsOnly")
	return n
}

// carriedBy returns a func that explains why a command line that reaches a host is asked about in spite of rules; "":
// it is not.
func carriedBy(reads func() Reads) func(line string) string {
	return func(line string) string {
		if texts, _ := reads().Secrets(); secrets.Found(line, texts) {
			return "the command carries text of a secret that this session has read"
		}
		return ""
	}
}
