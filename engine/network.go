package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/confine/permission"
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

// OpenHosts returns what opens hosts to the commands of a project's sessions without a question: hosts of the setting
// sandbox.allowHosts, and rules of settings and of answers that were kept. Other rules for them may still ask or deny.
func OpenHosts(p *Project) (open []string, err error) {
	n := networkOf(p.config)
	if !n.Managed {
		open = slices.Clone(p.config.Settings.Sandbox.AllowHosts)
	}
	add := func(r permission.Rule) {
		if text := r.String(); r.Tool == "Network" || strings.HasPrefix(text, "WebFetch(domain:") {
			open = append(open, text)
		}
	}
	for _, r := range p.config.Rules.Allow {
		if r.Origin == permission.Managed || !n.Managed && r.Origin != permission.Project { // which opens none
			add(r)
		}
	}
	if n.Managed {
		return open, nil
	}
	kept, err := p.trust.Kept()
	for _, k := range kept {
		if r, err := permission.ParseRule(k.Rule, permission.Kept); err == nil {
			add(r)
		}
	}
	return open, err
}
