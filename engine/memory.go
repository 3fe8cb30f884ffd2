package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack/permission"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool"
	"github.com/knack-agent/knack/tool/memory"
	"github.com/knack-agent/knack/tool/web"
)

// memoryDirs returns where the notes about the user and about the project are kept; "": nowhere.
func (p *Project) memoryDirs() (user, project string) {
	base := p.options.Env.StateFile("memories")
	if base == "" {
		return "", ""
	}
	sum := sha256.Sum256([]byte(realPath(p.root)))
	return filepath.Join(base, "user"), filepath.Join(base, "projects", hex.EncodeToString(sum[:8]))
}

// memoryTools returns the tool for notes, if the setting memory.auto turns it on.
func (s *Session) memoryTools(p *Project) tool.Set {
	user, project := p.memoryDirs()
	if !p.config.Settings.Memory.Auto || user == "" {
		return nil
	}
	return tool.Set{memory.Tool(memory.Options{User: user, Project: project, Secrets: s.secretTexts,
		Untrusted: func() string { return strangersText(s.log) }})}
}

// memoryPrompt returns the part of the system prompt with the notes.
func (p *Project) memoryPrompt() string {
	if !p.config.Settings.Memory.Auto {
		return ""
	}
	user, project := p.memoryDirs()
	var parts []string
	for _, d := range []struct{ name, dir string }{{"user", user}, {"project", project}} {
		if d.dir == "" {
			continue
		}
		if text := memory.Prompt(d.dir); text != "" {
			parts = append(parts, "Notes from earlier conversations (/memories/"+d.name+"/MEMORY.md):\n"+text)
		}
	}
	return strings.Join(parts, "\n\n")
}

// strangersText explains where a conversation may have read text that neither the user nor the project wrote; "": nowhere.
// The log contains it also after a compaction, and in a session that is resumed. What an agent reports may come from
// anywhere.
func strangersText(log *session.Log) string {
	for _, e := range log.Entries() {
		if e.Agent != nil {
			return "this session has read what an agent reported, which may come from the web"
		}
		if e.Decision == nil || e.Decision.By.Verdict == permission.Deny {
			continue
		}
		switch name := e.Decision.Tool; {
		case name == web.FetchName, name == web.SearchName:
			return "this session has read from the web, and a page may have asked for this"
		case strings.HasPrefix(name, "mcp__"), name == "read_mcp_resource":
			return "this session has read from an MCP server, which may have asked for this"
		}
		for _, j := range e.Decision.By.Subjects {
			if j.Verdict != permission.Deny && j.IsCommand() && readsNetwork(j.Text) {
				return "a command of this session may have read from the web, and a page may have asked for this"
			}
		}
	}
	return ""
}

// readsNetwork reports whether a command line may print what it reads from other machines.
func readsNetwork(line string) bool {
	if strings.Contains(line, "://") || strings.Contains(line, "/dev/tcp") {
		return true
	}
	words := strings.FieldsFunc(line, func(r rune) bool { return r <= ' ' || strings.ContainsRune(";|&()<>`'\"$=", r) })
	for i, w := range words {
		switch filepath.Base(w) {
		case "curl", "wget", "http", "https", "xh", "aria2c", "lynx", "links", "w3m", "elinks", "nc", "ncat", "netcat", "socat",
			"telnet", "ftp", "sftp", "scp", "rsync", "ssh", "gh", "glab", "dig", "host", "nslookup", "whois", "openssl", "gcloud",
			"aws", "az", "kubectl", "psql", "mysql", "redis-cli":
			return true
		case "git":
			for _, sub := range words[i+1:] {
				switch sub {
				case "clone", "fetch", "pull", "ls-remote", "submodule", "remote", "archive":
					return true
				}
			}
		}
	}
	return false
}
