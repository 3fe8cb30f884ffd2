package reads

import (
	"testing"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/session"
)

// TestStrangersText: what the log of a session shows about where it has read. Found by attack: after a prompt, a skill
// or a resource of an MCP server, a rule Memory still covered notes without a question.
func TestStrangersText(t *testing.T) {
	bash := func(line string, v permission.Verdict) session.Entry {
		return session.Entry{Type: session.TypeDecision, Decision: &session.Decision{Tool: "bash",
			By: permission.Decision{Verdict: v, Subjects: []permission.Judged{{Verdict: v,
				Subject: permission.Subject{Kind: permission.KindBash, Text: line}}}}}}
	}
	other := func(tool string, v permission.Verdict) session.Entry {
		return session.Entry{Type: session.TypeDecision, Decision: &session.Decision{Tool: tool,
			By: permission.Decision{Verdict: v}}}
	}
	for _, c := range []struct {
		entry session.Entry
		want  bool
	}{
		{bash("go test ./...", permission.Allow), false}, {bash("git status", permission.Allow), false},
		{bash("curl -s example.com", permission.Allow), true}, {bash("/usr/bin/wget x", permission.Allow), true},
		{bash("X=1 sh -c 'curl x'", permission.Allow), true}, {bash("cat < /dev/tcp/x/80", permission.Allow), true},
		{bash("python3 -c 'open(\"https://x\")'", permission.Allow), true}, {bash("git -C x pull", permission.Allow), true},
		{bash("curl -s example.com", permission.Deny), false}, {bash("echo curly", permission.Allow), false},
		{session.Entry{Type: session.TypeSeen, Seen: &session.Seen{Web: "this session has read from the web"}}, true},
		{session.Entry{Type: session.TypeSeen, Seen: &session.Seen{Secrets: []string{"/x"}}}, false},
		{other("read", permission.Allow), false},
		{session.Entry{Type: session.TypeUser, User: &session.User{Typed: "hi"}}, false},
		{session.Entry{Type: session.TypeUser, User: &session.User{Server: "s"}}, true},
		{session.Entry{Type: session.TypeActivation, Activation: &session.Activation{Skill: "s:x", Server: "s"}}, true},
		{session.Entry{Type: session.TypeAgent, Agent: &session.Agent{Name: "Explore", Log: "x"}}, true},
	} {
		log := session.New(session.Header{})
		if _, err := log.Append(c.entry); err != nil {
			t.Fatal(err)
		}
		if got := strangersText(log); (got != "") != c.want {
			t.Errorf("%+v: %q", c.entry.Decision, got)
		}
	}
}
