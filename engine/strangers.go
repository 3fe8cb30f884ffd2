package engine

import (
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool/browser"
	"github.com/knack-agent/knack/run/tool/web"
)

const fromServer = "this session has read from an MCP server, which may have asked for this"

// strangersText explains where a conversation may have read text that neither the user nor the project wrote; "":
// nowhere. The log contains it also after a compaction, and in a session that is resumed. What an agent reports may
// come from anywhere.
func strangersText(log *session.Log) string {
	if log.Header().Imported {
		return "this session was imported, with text that may come from the web"
	}
	for e := range log.All() {
		if e.Agent != nil {
			return "this session has read what an agent reported, which may come from the web"
		}
		if e.Seen != nil && e.Seen.Web != "" {
			return e.Seen.Web + ", and a page may have asked for this"
		}
		if e.User != nil && e.User.Server != "" || e.Activation != nil && e.Activation.Server != "" {
			return fromServer
		}
		// A call that nobody could be asked about did not run, but a host reads resources unasked.
		if e.Decision == nil || e.Decision.By.Verdict == permission.Deny || e.Decision.By.Verdict == permission.Ask &&
			e.Decision.Tool != "read_mcp_resource" {
			continue
		}
		switch name := e.Decision.Tool; {
		case name == "CronList", name == "Batch" && slices.ContainsFunc(e.Decision.By.Subjects, func(j permission.Judged) bool {
			return j.Verdict == permission.Allow // not asked: a look at the results
		}):
			return "this session has read what another session wrote or reported, which may come from the web"
		case name == web.FetchName, name == web.SearchName, strings.HasPrefix(name, browser.Prefix):
			return "this session has read from the web, and a page may have asked for this"
		case strings.HasPrefix(name, "mcp__"), name == "read_mcp_resource", name == "list_mcp_resources":
			return fromServer
		}
		for _, j := range e.Decision.By.Subjects {
			if j.Verdict != permission.Deny && j.IsCommand() && readsNetwork(j.Text) {
				return "a command of this session may have read from the web, and a page may have asked for this"
			}
		}
	}
	return ""
}
