package engine

import (
	"time"

	"github.com/knack-agent/knack/internal/leaf/secrets"
	"github.com/knack-agent/knack/run/gate"
)

// networkOf returns what the settings of a project say about connections of commands.
func networkOf(p *Project) gate.Network {
	var n gate.Network
	if wait := p.config.Settings.Sandbox.NetworkWait; wait != nil {
		if n.Wait = time.Duration(*wait * float64(time.Second)); n.Wait <= 0 {
			n.Wait = -1
		}
	}
	_, n.Managed = p.config.HeldBy("sandbox.network.allowManagedDomainsOnly")
	return n
}

// carriedBy explains why a command line that reaches a host is asked about in spite of rules; "": it is not.
func (c *Conv) carriedBy(line string) string {
	if texts, _ := c.Reads().Secrets(); secrets.Found(line, texts) {
		return "the command carries text of a secret that this session has read"
	}
	return ""
}
