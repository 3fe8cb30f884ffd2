package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/browser"
	"github.com/knack-agent/knack/run/tool/memory"
	"github.com/knack-agent/knack/run/tool/web"
)

// Notes describes the notes of earlier conversations.
type Notes struct {
	// User and Project are the directories of the notes about the user and about the project, which need not exist; "":
	// there is no directory for state.
	User, Project string
	// the directory of Claude Code's notes about the project, which need not exist; "": there is no home
	Claude     string
	Auto       bool // the model reads and writes notes: the setting memory.auto
	ReadClaude bool // the notes of Claude Code are in the prompt: the setting memory.claude
	Propose    bool // the end of a session proposes notes: the setting memory.propose
}

// Notes returns where the notes of earlier conversations are, and who reads them.
func (p *Project) Notes() Notes {
	n := Notes{Auto: p.config.Settings.Memory.Auto, ReadClaude: p.config.Settings.Memory.Claude,
		Propose: p.config.Settings.Memory.Propose}
	root := realPath(p.root)
	if base := p.options.Env.StateFile("memories"); base != "" {
		sum := sha256.Sum256([]byte(root))
		n.User = filepath.Join(base, "user")
		n.Project = filepath.Join(base, "projects", hex.EncodeToString(sum[:8]))
	}
	if dir := p.options.Env.ClaudeDir(); dir != "" {
		n.Claude = filepath.Join(dir, "projects", notAlphanumeric(root), "memory")
	}
	return n
}

// notAlphanumeric replaces what is neither a letter nor a digit of ASCII by a hyphen, as Claude Code does in the names
// of directories of projects.
func notAlphanumeric(path string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '-'
	}, path)
}

// options returns the options of the tool for the notes of a session.
func (n Notes) options(s *Session) memory.Options {
	return memory.Options{User: n.User, Project: n.Project, Secrets: s.reads.textsAndKeys,
		Untrusted: func() string { return strangersText(s.log) }}
}

// memoryTools returns the tool for notes, if the setting memory.auto turns it on.
func (s *Session) memoryTools(p *Project) tool.Set {
	n := p.Notes()
	if !n.Auto || n.User == "" {
		return nil
	}
	return tool.Set{memory.Tool(n.options(s))}
}

// Add adds a line that the user typed in s to the notes about the user, or about the project. Text that looks like a
// secret, that s has read from one, or that is too long, is refused.
func (n Notes) Add(s *Session, project bool, line string) error {
	path := "/memories/user/MEMORY.md"
	if project {
		path = "/memories/project/MEMORY.md"
	}
	if n.User == "" {
		return ErrNoState("no note can be stored")
	}
	return memory.Add(n.options(s), path, line)
}

// Stranger explains why what s says may come from a stranger, such as a page of the web; "": it does not.
func (n Notes) Stranger(s *Session) string { return strangersText(s.log) }

// memoryPrompt returns the part of the system prompt with the notes.
func (p *Project) memoryPrompt() string {
	n := p.Notes()
	var parts []string
	add := func(wanted bool, dir, title string) {
		if !wanted || dir == "" {
			return
		}
		if text := memory.Prompt(dir); text != "" {
			parts = append(parts, title+":\n"+text)
		}
	}
	add(n.Auto, n.User, "Notes from earlier conversations (/memories/user/MEMORY.md)")
	add(n.Auto, n.Project, "Notes from earlier conversations (/memories/project/MEMORY.md)")
	add(n.ReadClaude, n.Claude, "Notes of Claude Code about this project ("+filepath.Join(n.Claude, "MEMORY.md")+")")
	return strings.Join(parts, "\n\n")
}

// NoteCommand returns the command for a prompt of one line that begins with "# ", which adds a note. Other prompts are
// returned unchanged.
func NoteCommand(prompt string) string {
	if note, ok := strings.CutPrefix(prompt, "# "); ok && !strings.Contains(note, "\n") && strings.TrimSpace(note) != "" {
		return "/memory add " + strings.TrimSpace(note)
	}
	return prompt
}

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
