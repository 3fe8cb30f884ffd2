package cli

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/knack-agent/knack/internal/leaf/regular"
)

// flagMeanings are flags of Claude Code, Codex, Gemini CLI, OpenCode and Pi that have another name here, with the line
// that does what they do. Nothing is run by such a name: a guess must not loosen a run.
var flagMeanings = [...]struct{ name, line string }{
	{"mode", "knack --permission-mode"},
	{"approval-mode", "knack --permission-mode"},
	{"ask-for-approval", "knack --permission-mode"},
	{"yolo", "knack --dangerously-skip-permissions"},
	{"full-auto", "knack --permission-mode acceptEdits"},
	{"dangerously-bypass-approvals-and-sandbox", "knack --dangerously-skip-permissions --sandbox off"},
	{"auto-approve", "knack --dangerously-skip-permissions"},
	{"export", "knack session export ID"},
	{"session", "knack --resume ID"},
	{"last", "knack --continue"},
	{"prompt", "knack -p 'your prompt'"},
	{"exec", "knack -p 'your prompt'"},
	{"quiet", "knack -p 'your prompt'"},
	{"json", "knack -p --output-format json"},
	{"format", "knack -p --output-format json"},
	{"output", "knack -p --output-format json"},
	{"stream", "knack -p --output-format stream-json --include-partial-messages"},
	{"provider", "knack --model PROVIDER/NAME"},
	{"oss", "knack models"},
	{"models", "knack models"},
	{"api-key", "knack login PROVIDER"},
	{"cwd", "knack --workspace DIR"},
	{"cd", "knack --workspace DIR"},
	{"dir", "knack --workspace DIR"},
	{"include-directories", "knack --add-dir DIR"},
	{"thinking-budget", "knack --effort"},
	{"reasoning-effort", "knack --effort"},
	{"variant", "knack --effort"},
	{"no-tools", "knack --tools none"},
	{"no-builtin-tools", "knack --tools none"},
	{"extension", "knack --plugin-dir DIR"},
	{"extensions", "knack --plugin-dir DIR"},
	{"no-context-files", "knack --bare"},
	{"no-extensions", "knack --bare"},
	{"no-prompt-templates", "knack --bare"},
	{"image", "knack -p '@picture.png what is this?'"},
	{"file", "knack -p '@FILE what is this?'"},
	{"title", "knack --name TITLE"},
	{"share", "knack -p /share"},
	{"profile", "knack --settings FILE"},
	{"config", "knack --settings FILE"},
	{"print-timing", "knack --debug"},
	{"allowed-mcp-server-names", "knack --mcp-config FILE --strict-mcp-config"},
	{"ide", "knack help"},
	{"theme", "knack help keys"},
	{"max-tokens", "knack --max-turns"},
	{"max-budget", "knack --max-cost"},
	{"autocompact", "knack, with compaction.reserve in your own settings"},
	{"ax-screen-reader", "KNACK_UI=line knack"},
	{"brief", "knack --append-system-prompt 'Answer briefly.'"},
	{"chrome", "knack help tools"},
	{"no-chrome", "knack --deny browser_open"},
	{"cloud", "knack --workspace ssh://HOST/DIR"},
	{"remote", "knack --workspace ssh://HOST/DIR"},
	{"teleport", "knack --resume ID"},
	{"desktop", "knack help hosts"},
	{"environment", "knack --workspace ssh://HOST/DIR"},
	{"remote-control", "knack help hosts"},
	{"remote-control-session-name-prefix", "knack --name TITLE"},
	{"remote-auth-token-env", "knack --workspace ssh://HOST/DIR"},
	{"disable-slash-commands", "knack --no-skills"},
	{"from-pr", "knack --resume ID"},
	{"exclude-dynamic-system-prompt-sections", "knack --system-prompt-file FILE"},
	{"forward-subagent-text", "knack -p --output-format stream-json"},
	{"plugin-url", "knack plugin add URL"},
	{"prompt-suggestions", "knack help hosts"},
	{"restricted", "knack --bare --tools read,edit,write,grep,find,ls"},
	{"safe-mode", "knack --bare --no-skills"},
	{"system-prompt-snapshot", "knack --system-prompt-file FILE"},
	{"tmux", "tmux new 'knack --worktree'"},
	{"exclude-tools", "knack --deny NAMES"},
	{"no-approve", "knack --setting-sources user"},
	{"approve", "knack --trust"},
	{"no-mcp", "knack --strict-mcp-config"},
	{"no-themes", "knack, with theme in your own settings"},
	{"use-theme", "knack, with theme in your own settings"},
	{"tui-mode", "KNACK_UI=line knack"},
	{"offline", "knack, which connects to nothing before your prompt"},
	{"session-dir", "XDG_STATE_HOME=DIR knack"},
	{"fork", "knack --resume ID --fork-session"},
	{"plan", "knack --permission-mode plan"},
	{"search", "knack help tools"},
	{"no-daemon", "KNACK_UI=line knack"},
	{"no-alt-screen", "KNACK_UI=line knack"},
	{"strict-config", "knack settings check"},
	{"ephemeral", "knack --no-session"},
	{"output-last-message", "knack -p 'your prompt' > FILE"},
	{"output-schema", "knack -p --json-schema FILE"},
	{"color", "NO_COLOR=1 knack"},
	{"skip-git-repo-check", "knack, which needs no repository"},
	{"ignore-rules", "knack --setting-sources project"},
	{"ignore-user-config", "knack --setting-sources project"},
	{"thread-source", "knack --session-id ID"},
	{"local-provider", "knack models"},
	{"enable", "knack, with features in your own settings"},
	{"disable", "knack, with features in your own settings"},
	{"approve-for-me", "knack --permission-mode acceptEdits"},
	{"dangerously-bypass-hook-trust", "knack --trust"},
	{"cyber-access-program", "knack, which has no such program"},
	{"auto", "knack --dangerously-skip-permissions"},
	{"attach", "knack --resume ID"},
	{"port", "knack web --help"},
	{"hostname", "knack web --help"},
	{"mdns", "knack web --help"},
	{"mdns-domain", "knack web --help"},
	{"cors", "knack web --help"},
	{"password", "knack web --help"},
	{"username", "knack web --help"},
	{"pure", "knack --bare"},
	{"mini", "KNACK_UI=line knack"},
	{"command", "knack -p '/NAME your words'"},
	{"interactive", "knack 'your prompt'"},
	{"log-level", "knack --debug"},
	{"print-logs", "knack --debug"},
	{"no-replay", "knack --resume ID"},
	{"replay-limit", "knack --resume ID"},
	{"plugin-dir-no-mcp", "knack --plugin-dir DIR --strict-mcp-config"},
	{"max-thinking-tokens", "knack --effort TOKENS"},
	{"mcp-debug", "knack --debug"},
	{"init", "knack -p /init"},
	{"init-only", "knack -p /init"},
	{"permission-profile", "knack --permission-mode"},
	{"m", "knack --model MODEL"},
	{"C", "knack --workspace DIR"},
	{"s", "knack --sandbox MODE, or knack --resume ID"},
	{"i", "knack -p '@picture.png what is this?'"},
	{"t", "knack --tools NAMES"},
	{"e", "knack --plugin-dir DIR"},
	{"n", "knack --name TITLE"},
	{"nt", "knack --tools none"},
	{"nbt", "knack --tools none"},
	{"ns", "knack --no-skills"},
	{"ne", "knack --bare"},
	{"np", "knack --bare"},
	{"nc", "knack --bare"},
	{"na", "knack --setting-sources user"},
	{"xt", "knack --deny NAMES"},
	{"a", "knack --permission-mode MODE, or knack --trust"},
	{"f", "knack -p '@FILE what is this?'"},
	{"d", "knack --debug"},
	{"w", "knack --worktree"},
	{"o", "knack -p 'your prompt' > FILE"},
	{"V", "knack --version"},
	{"u", "knack web --help"},
	{"q", "knack -p 'your prompt'"},
	{"y", "knack --dangerously-skip-permissions"},
}

// commandMeanings are names that other programs give to the commands that a group may have.
var commandMeanings = [...]struct{ word, names string }{
	{"ls", "list status"},
	{"lst", "list status"},
	{"ps", "list status"},
	{"all", "list"},
	{"rm", "remove"},
	{"delete", "remove"},
	{"del", "remove"},
	{"uninstall", "remove"},
	{"un-install", "remove"},
	{"install", "add"},
	{"new", "add new"},
	{"create", "new add"},
	{"init", "new add"},
	{"info", "show explain"},
	{"cat", "show"},
	{"view", "show"},
	{"get", "show list"},
	{"describe", "show"},
	{"inspect", "show explain"},
	{"lint", "check validate"},
	{"validate", "check"},
	{"check", "validate verify"},
	{"search", "find"},
	{"upgrade", "update"},
	{"stop", "cancel"},
	{"kill", "cancel"},
	{"resume", "retry"},
	{"explain", "why show"},
	{"on", "enable"},
	{"off", "disable"},
}

// wordMeanings are commands of Claude Code, Codex, OpenCode and Pi that knack does not have, with the line that does
// what they do. A verb is a word with which a prompt of two words may begin, too.
var wordMeanings = [...]struct {
	word string
	verb bool
	line string
}{
	{"agent", false, "knack -p /agents"},
	{"app-server", false, "knack help hosts"},
	{"apply", true, "knack --continue"},
	{"archive", true, "knack session list"},
	{"auth", false, "knack login PROVIDER"},
	{"cloud", false, "knack batch --help"},
	{"config", false, "knack settings show"},
	{"delete", true, "knack session list"},
	{"exec", false, "knack -p 'your prompt'"},
	{"export", true, "knack session export ID"},
	{"extensions", false, "knack plugin list"},
	{"features", false, "knack doctor"},
	{"fork", true, "knack --resume ID --fork-session"},
	{"gateway", false, "knack help models"},
	{"github", false, "knack -p 'your prompt'"},
	{"hooks", false, "knack -p /hooks"},
	{"import", true, "knack session import FILE"},
	{"init", true, "knack -p /init"},
	{"install", true, "knack plugin add NAME"},
	{"kill", true, "knack batch cancel"},
	{"pr", false, "knack -p 'your prompt'"},
	{"providers", false, "knack models"},
	{"purge", true, "knack session list"},
	{"queue", true, "knack batch status"},
	{"remote-control", false, "knack help hosts"},
	{"respawn", false, "knack --resume ID"},
	{"resume", true, "knack --resume ID"},
	{"review", true, "knack -p /review"},
	{"run", true, "knack -p 'your prompt'"},
	{"serve", false, "knack mcp serve"},
	{"setup-token", false, "knack login PROVIDER"},
	{"stats", false, "knack -p /cost"},
	{"ultrareview", false, "knack -p /review"},
	{"uninstall", true, "knack plugin remove NAME"},
	{"unarchive", false, "knack session list"},
	{"update", true, "knack plugin update"},
	{"upgrade", true, "knack plugin update"},
}

// wordMeaning returns the line that does what the command of another program does, or "" if the words are not such a
// command but a prompt.
func wordMeaning(args []string) string {
	if len(args) == 0 || len(args) > 2 {
		return ""
	}
	for _, m := range wordMeanings {
		if m.word == args[0] && (len(args) == 1 || !m.verb || strings.Contains(args[1], " ")) {
			return m.line
		}
	}
	return ""
}

// flagMeaning returns the line that does what a flag does elsewhere, or "".
func flagMeaning(name string) string {
	for _, m := range flagMeanings {
		if m.name == name {
			return m.line
		}
	}
	return ""
}

// meaning returns the subcommand of c that a word means elsewhere, or "".
func meaning(c *cobra.Command, word string) string {
	for _, m := range commandMeanings {
		if m.word != strings.ToLower(word) {
			continue
		}
		for name := range strings.FieldsSeq(m.names) {
			for _, sub := range c.Commands() {
				if sub.Name() == name && sub.IsAvailableCommand() {
					return name
				}
			}
		}
	}
	return ""
}

// A promptFile is the value of a flag such as --system-prompt-file: the path of a file, of at most 1 MiB, whose text
// becomes the value of the flag to.
type promptFile struct {
	flags *pflag.FlagSet
	to    string // the other flag
	path  string
}

func (p *promptFile) String() string { return p.path }
func (p *promptFile) Type() string   { return "file" }

func (p *promptFile) Set(path string) error {
	data, err := regular.ReadNamed(path, 1<<20)
	var large regular.TooLargeError
	switch {
	case errors.As(err, &large):
		return fmt.Errorf("%s is larger than 1 MiB", path)
	case err != nil:
		return plainPath(err)
	case !utf8.Valid(data):
		return fmt.Errorf("%s is not UTF-8 text", path)
	}
	p.path = path
	return p.flags.Set(p.to, strings.TrimSpace(string(data)))
}
