package cli

import (
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
)

// otherFlags are the flags of other programs, from their help; those of one letter and a few short words with one dash.
func otherFlags() map[string]string {
	return map[string]string{
		"Claude Code": `add-dir agent agents allow-dangerously-skip-permissions allowed-tools allowedTools append-system-prompt
		append-system-prompt-file autocompact ax-screen-reader background bare betas bg brief c chrome cloud
		continue d dangerously-skip-permissions debug debug-file desktop disable-slash-commands disallowed-tools
		disallowedTools effort environment exclude-dynamic-system-prompt-sections fallback-model file
		fork-session forward-subagent-text from-pr h help ide include-hook-events include-partial-messages init
		init-only input-format json-schema managed-settings max-budget-usd max-thinking-tokens max-turns
		mcp-config model n name no-chrome no-session-persistence output-format p permission-mode
		permission-prompt-tool permission-prompts plugin-dir plugin-dir-no-mcp plugin-url print
		prompt-suggestions r remote-control remote-control-session-name-prefix replay-user-messages restricted
		resume resume-session-at safe-mode session-id setting-sources settings strict-mcp-config system-prompt
		system-prompt-file system-prompt-snapshot task-budget teleport thinking tmux tools v verbose version w
		worktree`,
		"Pi": `a api-key append-system-prompt approve c continue e exclude-tools export extension fork h help
		list-models mode model models n na name nbt nc ne no-approve no-builtin-tools no-context-files
		no-extensions no-mcp no-prompt-templates no-session no-skills no-themes no-tools np ns nt offline p
		print prompt-template provider r resume session session-dir session-id skill system-prompt t theme
		thinking tools tui-mode use-theme v verbose version xt`,
		"Codex": `C V a add-dir approve-for-me ask-for-approval c cd color config cyber-access-program
		dangerously-bypass-approvals-and-sandbox dangerously-bypass-hook-trust disable enable ephemeral h help i
		ignore-rules ignore-user-config image json local-provider m model no-alt-screen no-daemon o oss
		output-last-message output-schema p profile remote remote-auth-token-env s sandbox search
		skip-git-repo-check strict-config thread-source trust version worktree`,
		"OpenCode": `agent attach auto c command continue cors dir f file fork format h help hostname i interactive log-level
		m mdns mdns-domain mini model no-replay p password port print-logs prompt pure replay-limit s session
		share thinking title u username v variant version`,
	}
}

// otherMeanings are flags that Knack has too, and that mean something else in another program.
func otherMeanings() map[string]string {
	return map[string]string{
		"Claude Code background": "waits for background commands, or stops them; for work in the background: knack --bg",
		"Claude Code v":          "--verbose; --version is the version",
		"Codex c":                "--continue; knack --settings JSON sets settings",
		"Codex p":                "--print; knack --settings FILE sets settings",
		"OpenCode p":             "--print; knack web has an address of its own",
		"OpenCode thinking":      "disabled, adaptive or enabled; the screen shows thinking in one line",
		"OpenCode v":             "--verbose; --version is the version",
		"Pi thinking":            "disabled, adaptive or enabled; knack --effort LEVEL",
		"Pi v":                   "--verbose; --version is the version",
	}
}

// TestOtherFlags: each flag of other programs is one here, or is answered with a line that does what it does there, or
// says why not; the table is made by using each. The lines have no flags and commands that Knack does not have.
func TestOtherFlags(t *testing.T) {
	var rows []string
	for _, program := range slices.Sorted(maps.Keys(otherFlags())) {
		for name := range strings.FieldsSeq(otherFlags()[program]) {
			rows = append(rows, otherRow(program, "flag", dashes(name)+name, flagState(t, program, name)))
		}
	}
	matchesTable(t, "others-flags", rows)
}

// dashes returns what stands before a flag: the short ones have one dash.
func dashes(name string) string {
	if len(name) < 4 && !slices.Contains([]string{"ide", "oss", "cd", "dir", "bg"}, name) {
		return "-"
	}
	return "--"
}

// flagState returns what Knack does with a flag of another program.
func flagState(t *testing.T, program, name string) string {
	t.Helper()
	root := rootCommand(nil)
	root.InitDefaultHelpFlag()
	root.InitDefaultVersionFlag()
	flag := root.Flags().Lookup(name)
	if len(name) == 1 {
		flag = root.Flags().ShorthandLookup(name)
	}
	if flag != nil {
		if other := otherMeanings()[program+" "+name]; other != "" {
			return "another thing | " + other
		}
		return "used | "
	}
	word := dashes(name) + name
	if strings.HasPrefix(word, "--") {
		word += "=x"
	}
	err := root.ParseFlags([]string{word})
	if err == nil {
		t.Fatalf("%s: it is no flag, and no error", name)
	}
	var usage *engine.Error
	if !errors.As(root.FlagErrorFunc()(root, err), &usage) || usage.Hint == "" || usage.Hint == "knack --help" ||
		flagMeaning(name) == "" {
		t.Errorf("--%s of %s: nothing says what to do: %v", name, program, err)
		return ""
	}
	for _, used := range regexp.MustCompile(`(?:^| )--[a-z-]+`).FindAllString(usage.Hint, -1) {
		if used = strings.TrimLeft(used, " -"); used != "help" && root.Flags().Lookup(used) == nil {
			t.Errorf("--%s: %s: there is no flag --%s", name, usage.Hint, used)
		}
	}
	if m := regexp.MustCompile(`^knack ([a-z]+)`).FindStringSubmatch(usage.Hint); m != nil && m[1] != "help" {
		if c, _, err := rootCommand([]string{m[1]}).Find([]string{m[1]}); err != nil || c.Name() != m[1] {
			t.Errorf("--%s: %s: there is no command %s", name, usage.Hint, m[1])
		}
	}
	return "named | " + usage.Hint
}

// otherRow returns a row of the tables from which docs/from-other-agents.md is made. state may have what to do behind a
// bar.
func otherRow(program, what, name, state string) string {
	state, how, _ := strings.Cut(state, " | ")
	return program + "\t" + what + "\t" + name + "\t" + state + "\t" + how
}

// matchesTable compares rows with testdata/NAME.tsv, or writes it. TestOtherAgents makes the page of it.
func matchesTable(t *testing.T, name string, rows []string) {
	t.Helper()
	path := "testdata/" + name + ".tsv"
	text := strings.Join(rows, "\n") + "\n"
	old, err := os.ReadFile(path)
	switch {
	case *update:
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	case err != nil || string(old) != text:
		t.Errorf("%s is old; -update writes it (%v)", path, err)
	}
}
