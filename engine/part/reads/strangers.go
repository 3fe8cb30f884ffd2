package reads

import (
	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/mcp"
	"github.com/knack-agent/knack/run/session"
)

// askedFor says in a reason why it matters whose text a session has read.
const askedFor = ", which may have asked for this"

// strangersText explains where a conversation may have read text that neither the user nor the project wrote; "":
// nowhere. The log contains it also after a compaction, and in a session that is resumed. What an agent reports may
// come from anywhere. What tools say about their results ([tool.Tool.Strangers]) and what commands reached is in Seen
// when they run; here are only the words of commands.
func strangersText(log *session.Log) string {
	if log.Header().Imported {
		return "this session was imported, with text that may come from the web"
	}
	for e := range log.All() {
		if e.Agent != nil {
			return "this session has read what an agent reported, which may come from the web"
		}
		if e.Seen != nil && e.Seen.Web != "" {
			return e.Seen.Web + askedFor
		}
		if e.User != nil && e.User.Server != "" || e.Activation != nil && e.Activation.Server != "" {
			return "this session has read from " + mcp.Strangers + askedFor
		}
		if e.Decision == nil || e.Decision.By.Verdict != permission.Allow {
			continue
		}
		for _, j := range e.Decision.By.Subjects {
			if j.Verdict != permission.Deny && j.IsCommand() && readsNetwork(j.Text) {
				return "a command of this session may have read from the web" + askedFor
			}
		}
	}
	return ""
}
