package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/engine/servers"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/agent"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/mcp"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/coding"
)

// MentionPrefix is the prefix that names an agent in a prompt, as in @agent-Explore.
const MentionPrefix = "@agent-"

// mentionedAgent returns the agent that a word names.
func (t *Turn) mentionedAgent(word string) (agent.Definition, bool) {
	name, ok := strings.CutPrefix(word, MentionPrefix)
	if !ok {
		return agent.Definition{}, false
	}
	all := slices.Concat(t.host.Agents, t.project.agents)
	for _, n := range []string{name, strings.TrimRight(name, ",.;:!?)")} {
		if i := slices.IndexFunc(all, func(d agent.Definition) bool { return d.Name == n }); i >= 0 {
			return all[i], true
		}
	}
	return agent.Definition{}, false
}

// Mention returns the text that attaches a file to a prompt.
func Mention(path string) string {
	switch {
	case !strings.ContainsFunc(path, unicode.IsSpace) && !strings.HasPrefix(path, `"`) && !strings.HasPrefix(path, "'"):
		return "@" + path
	case strings.Contains(path, `"`):
		return "@'" + path + "'"
	}
	return `@"` + path + `"`
}

// mentions returns what follows each @ at the start of a word. A path with blanks is in quotes, or has a backslash
// before each blank: terminals insert the paths of dropped files in these forms.
func mentions(prompt string) (words []string) {
	for i, start := 0, true; i < len(prompt); {
		r, size := utf8.DecodeRuneInString(prompt[i:])
		if i += size; r == '@' && start {
			word, n := mention(prompt[i:])
			words = append(words, word)
			i += n
		}
		start = unicode.IsSpace(r)
	}
	return words
}

// mention returns the word at the start of a text, and its length there.
func mention(text string) (word string, length int) {
	if quoted, n := quotedMention(text); n > 0 {
		return quoted, n
	}
	var b strings.Builder
	for length < len(text) {
		r, size := utf8.DecodeRuneInString(text[length:])
		if r == '\\' && runtime.GOOS != "windows" && strings.HasPrefix(text[length+1:], " ") {
			length++
		} else if unicode.IsSpace(r) {
			break
		}
		b.WriteString(text[length : length+size])
		length += size
	}
	return b.String(), length
}

// quotedMention returns the word in quotes at the start of a text, and its length with them; 0: there is none.
func quotedMention(text string) (word string, length int) {
	if text == "" || text[0] != '"' && text[0] != '\'' {
		return "", 0
	}
	end := strings.IndexAny(text[1:], text[:1]+"\n")
	if end <= 0 || text[1+end] != text[0] {
		return "", 0
	}
	return text[1 : 1+end], end + 2
}

// Attach adds to a prompt the files that the user typed as @path, in the form in which the read tool
// would show them. A path with blanks is in quotes: @"my file.txt". A word with @ that names no file stays
// plain text; if it looks like a path, it is reported. Only text that the user typed is searched. Naming a
// file counts as approval, but deny rules and the rules for secrets still apply, and a link in the workspace
// may not lead to a file outside. A word such as @agent-Explore asks the model to start that agent.
func (s *Session) Attach(ctx context.Context, in agent.Input) (agent.Input, error) {
	if !strings.Contains(in.Typed, "@") {
		return in, nil
	}
	a := &attachment{session: s, turn: s.Now()}
	for _, path := range mentions(in.Typed) {
		if d, ok := a.turn.mentionedAgent("@" + path); ok {
			in.Parts = append(in.Parts, llm.Text(fmt.Sprintf("<agent name=\"%s\">The user wants this agent to work on it: "+
				"start it with the Agent tool.</agent>", html.EscapeString(d.Name))))
			continue
		}
		if path == "" || slices.Contains(in.Touched, s.place.ws().Path(path)) {
			continue
		}
		if server, uri, ok := splitResource(s.servers, path); ok {
			res, err := a.resource(ctx, server, uri)
			if err != nil {
				return in, err
			}
			in.Parts, in.Server = append(in.Parts, res...), server
			continue
		}
		isFile := func(path string) bool {
			info, err := s.place.ws().Stat(ctx, path)
			return err == nil && info.Mode().IsRegular()
		}
		if !isFile(path) {
			path = strings.TrimRight(path, ",.;:!?)") // punctuation of the sentence, not part of the file name
		}
		if path == "" || slices.Contains(in.Touched, s.place.ws().Path(path)) {
			continue
		}
		if !isFile(path) {
			why := ""
			switch info, err := s.place.ws().Stat(ctx, path); {
			case err == nil && info.IsDir():
				why = "it is a directory"
			case err == nil:
				why = "it is not a regular file"
			case isResource(path):
				server, _, _ := strings.Cut(path, ":")
				s.engine.notices.add(knack.Problem{Code: knack.CodeAttachmentMissing, Severity: knack.Warn, Hint: "/mcp",
					Message: fmt.Sprintf("@%s: there is no MCP server %q; the text is sent as it is", path, server)})
			case strings.ContainsAny(path, "./\\") && !strings.Contains(path, "@"):
				why = "there is no such file"
			}
			if why != "" {
				s.engine.notices.add(knack.Problem{Code: knack.CodeAttachmentMissing, Severity: knack.Warn,
					Message: fmt.Sprintf("@%s: %s; the text is sent as it is", path, why), Hint: "ls " + filepath.Dir(path)})
			}
			continue
		}
		if err := refuseLinkOut(ctx, s.place.ws(), path); err != nil {
			return in, err
		}
		input, err := json.Marshal(map[string]string{"path": s.place.ws().Path(path)})
		if err != nil {
			return in, err
		}
		s.knowModel(ctx)
		res, err := a.call(ctx, s.files, "read", input)
		if err != nil {
			return in, err
		}
		// What has no form for a model (a broken PDF, say) is said before anything is sent: whoever typed the prompt can
		// name another file. What comes from tools and servers becomes a line of text, for nobody could mend it.
		if res.IsError {
			return in, fmt.Errorf("%s cannot be attached: %s", path, res.Parts[0].Text)
		}
		noteOmitted(s.engine.notices.add, path, res)
		for _, p := range res.Parts {
			if p.Media == nil {
				p = llm.Text(fmt.Sprintf("<file path=\"%s\">\n%s\n</file>", html.EscapeString(path), p.Text))
			}
			in.Parts = append(in.Parts, p)
		}
		in.Touched = append(in.Touched, s.place.ws().Path(path))
	}
	return in, nil
}

// noteOmitted tells the user that the model does not get the image that they named.
func noteOmitted(add func(knack.Problem), path string, res tool.Result) {
	d, ok := res.Details.(coding.ReadDetails)
	if !ok || d.Kind != "image" || slices.ContainsFunc(res.Parts, func(p llm.Part) bool { return p.Media != nil }) {
		return
	}
	lines := strings.Split(llm.TextOf(res.Parts), "\n")
	add(knack.Problem{Code: knack.CodeAttachmentMissing, Severity: knack.Warn,
		Message: fmt.Sprintf("@%s: the model gets no image, only this line: %s", path, lines[len(lines)-1])})
}

// knowModel selects the model of the next turn, because the form of an attached file depends on what it sees. The turn
// reports an error.
func (s *Session) knowModel(ctx context.Context) {
	m, err := s.Model(ctx)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastModel = m
}

// isResource reports whether a word has the form SERVER:URI of a resource of an MCP server.
func isResource(word string) bool {
	_, uri, ok := strings.Cut(word, ":")
	return ok && strings.Contains(uri, "://")
}

// splitResource splits a word that names a resource of an MCP server.
func splitResource(known *servers.Session, word string) (server, uri string, ok bool) {
	if !isResource(word) {
		return "", "", false
	}
	server, uri, _ = strings.Cut(word, ":")
	return server, strings.TrimRight(uri, ",;!)"), slices.ContainsFunc(known.List(),
		func(x mcp.Status) bool { return x.Name == server })
}

// An attachment reads what the user named in one prompt.
type attachment struct {
	session *Session
	turn    *Turn
	gate    *gate.Gate // nil: not needed yet
}

// call calls a tool for the user.
func (a *attachment) call(ctx context.Context, tools tool.Set, name string, input json.RawMessage) (res tool.Result,
	err error) {
	if a.gate == nil {
		if a.gate, err = a.turn.typedGate(gate.ApproverFunc(a.approve)); err != nil {
			return res, err
		}
	}
	return tool.Call(ctx, tools, llm.ToolCall{ID: "typed", Name: name, Input: input}, a.gate, nil), nil
}

// resource reads a resource that the user named, as the resource tool would.
func (a *attachment) resource(ctx context.Context, server, uri string) ([]llm.Part, error) {
	input, err := json.Marshal(map[string]string{"server": server, "uri": uri})
	if err != nil {
		return nil, err
	}
	servers := a.session.servers
	servers.Start()
	res, err := a.call(ctx, mcp.ResourceTools(servers.Clients()...), "read_mcp_resource", input)
	if err != nil {
		return nil, err
	}
	if res.IsError {
		return nil, fmt.Errorf("%s:%s cannot be attached: %s", server, uri, res.Parts[0].Text)
	}
	for i, p := range res.Parts {
		if mcp.IsLeftOut(p) {
			a.session.engine.notices.add(knack.Problem{Code: knack.CodeAttachmentMissing, Severity: knack.Warn,
				Message: fmt.Sprintf("@%s:%s: the model gets only this line: %s", server, uri, p.Text)})
		}
		if p.Media == nil {
			res.Parts[i] = llm.Text(fmt.Sprintf("<resource server=\"%s\" uri=\"%s\">\n%s\n</resource>",
				html.EscapeString(server), html.EscapeString(uri), p.Text))
		}
	}
	return res.Parts, nil
}

// approve allows reading a file that the user named. The user is asked about what naming does not approve, such as
// a secret, if that is possible. The answer counts for this call only.
func (a *attachment) approve(ctx context.Context, r gate.Request) (gate.Answer, error) {
	answer, err := gate.Typed.Approve(ctx, r)
	if err == nil || a.session.person == nil {
		return answer, err
	}
	r.Rules, r.Choices = nil, []gate.Choice{gate.Once, gate.No}
	return a.session.approve(ctx, r)
}

// refuseLinkOut returns an error for a path in the workspace that leads outside through a link: the
// author of the link chose that file, not the user who typed the path.
func refuseLinkOut(ctx context.Context, ws workspace.Workspace, path string) error {
	dir, err := ws.Realpath(ctx, ws.Dir())
	if err != nil {
		return err
	}
	target, err := ws.Realpath(ctx, ws.Path(path))
	if err != nil {
		return err
	}
	if !subpath.Contains(ws.Dir(), ws.Path(path)) || subpath.Contains(dir, target) {
		return nil
	}
	return &Error{
		Err:  fmt.Errorf("%s cannot be attached: it is a link to %s, outside the working directory", path, target),
		Hint: "to attach that file, type @" + target,
	}
}

// Path returns the absolute path for a path in a prompt.
func (s *Session) Path(path string) string { return s.place.ws().Path(path) }
