package reads

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/internal/leaf/scripts"
	"github.com/knack-agent/knack/run/gate"
	"github.com/knack-agent/knack/run/hook"
)

// hookRuns is called before the command of a hook runs.
func (r *Reads) hookRuns(c hook.Process, asUser bool) (reached func(string)) {
	if r.hookReads(c, asUser) {
		r.hookReached(c.Hook)
	}
	return func(string) { r.hookReached(c.Hook) }
}

// hookReached notes that a hook's command reads from the web: what it says then comes from there.
func (r *Reads) hookReached(h *hook.Hook) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hooks == nil {
		r.hooks = map[string]bool{}
	}
	r.hooks[hookKey(h)] = true
}

func hookKey(h *hook.Hook) string {
	return strings.Join(append([]string{string(h.Event), h.Path, h.Command}, h.Args...), "\x00")
}

// hookTold is called when a hook has answered with text for the model.
func (r *Reads) hookTold(h *hook.Hook) {
	r.mu.Lock()
	reached := h.Type == hook.OfHTTP || r.hooks[hookKey(h)]
	r.mu.Unlock()
	if reached {
		r.readWeb("a hook of this session has read from the web or a server")
	}
}

// hookReads reports whether a hook that no sandbox watches names a program that reads from the web, in its command or
// in a script that this runs.
func (r *Reads) hookReads(c hook.Process, asUser bool) bool {
	if !asUser && r.netConfined() {
		return false
	}
	line := cmp.Or(c.Line, strings.Join(c.Args, " "))
	reads := readsNetwork(line)
	home, root := r.conv.Project().Env().Home(), r.conv.Project().Root()
	line = strings.NewReplacer(" ~/", " "+home+"/", "$HOME", home, "${HOME}", home, "$CLAUDE_PROJECT_DIR", root,
		"${CLAUDE_PROJECT_DIR}", root, "$CLAUDE_PLUGIN_ROOT", c.Hook.Dir, "${CLAUDE_PLUGIN_ROOT}", c.Hook.Dir).Replace(" " +
		line)
	gate.CheckScripts(line, r.conv.Place().Workspace.Dir(), func(_ string, data []byte) error {
		reads = reads || readsNetwork(string(data))
		return nil
	})
	return reads
}

// netConfined reports whether a sandbox sees which hosts commands reach.
func (r *Reads) netConfined() bool {
	box, local := r.sandbox()
	return local && box != nil && box.Report().Level != sandbox.None
}

// unconfinedWeb explains why command lines that run without a sandbox may read from the web; "": they do not, or a
// sandbox sees what they reach.
func (r *Reads) unconfinedWeb(lines []string) string {
	if r.netConfined() {
		return ""
	}
	if !slices.ContainsFunc(lines, func(l string) bool { return !permission.OnlyReads(l) && !staysHere(l) }) {
		return ""
	}
	return "a command of this session ran without a sandbox and may have read from the web"
}

// staysHere reports whether all commands of a line are known to reach no other machine.
func staysHere(line string) bool {
	parsed, err := permission.ParseCommand(line)
	if err != nil {
		return false
	}
	for _, c := range parsed.Commands {
		if c.Opaque != "" || len(c.Inner) > 0 {
			return false
		}
		name := ""
		if len(c.Words) > 0 {
			name, _ = c.Words[0].Value()
		}
		switch name {
		case "cp", "mv", "rm", "mkdir", "rmdir", "touch", "chmod", "ln", "tee", "git":
		default:
			if !permission.OnlyReads(c.Text) {
				return false
			}
		}
	}
	return !readsNetwork(line)
}

// readsNetwork reports whether a command line names what may print text of other machines. The words are those that the
// shell makes of it, and those that are in strings.
func readsNetwork(line string) bool {
	if strings.Contains(line, "://") || strings.Contains(line, "/dev/tcp") {
		return true
	}
	words := strings.FieldsFunc(line, func(r rune) bool { return r <= ' ' || strings.ContainsRune(";|&()<>`'\"$={}", r) })
	for _, command := range scripts.Words(line) {
		for _, w := range command {
			words = append(words, w)
			for _, inner := range scripts.Words(w) { // sh -c 'c\url x'
				words = append(words, inner...)
			}
		}
	}
	for i, w := range words {
		switch filepath.Base(w) {
		case "curl", "wget", "http", "https", "xh", "aria2c", "lynx", "links", "w3m", "elinks", "nc", "ncat", "netcat",
			"socat", "telnet", "ftp", "sftp", "scp", "rsync", "ssh", "gh", "glab", "dig", "host", "nslookup", "whois", "openssl",
			"gcloud", "aws", "az", "kubectl", "psql", "mysql", "redis-cli":
			return true
		case "knack": // what other sessions report, as an agent does
			for _, sub := range words[i+1:] {
				switch sub {
				case "batch", "schedule", "loop", "session", "agents", "attach", "logs", "--bg", "-p", "--print", "run":
					return true
				}
			}
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
