package permission

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// A ProtectedPath is a file or directory that must not be written without approval: programs that somebody starts for
// another reason run code from it. Name is its name, or the end of its path, in a directory at any depth; a * in the
// last element matches any characters.
type ProtectedPath struct {
	Name string `json:"name"`
	Runs string `json:"runs"` // which program runs code from it, and when
}

// ProtectedPaths returns the names of files and directories that edit, write and bash do not write without approval,
// and that the sandbox makes read-only. The directories in [PathContext.Own] and every git directory are protected
// too, and the names in [PathContext.Protected].
//
// A name belongs to this table if opening or entering a folder, committing, installing packages, or starting an
// agent, an editor or a shell is enough to run what is in the file. What runs only when somebody builds or tests the
// project (Makefile, package.json, the configuration of a linter) does not belong to it.
func ProtectedPaths() []ProtectedPath {
	var all []ProtectedPath
	for _, row := range protectedTable {
		for name := range strings.FieldsSeq(row.names) {
			all = append(all, ProtectedPath{Name: name, Runs: row.runs})
		}
	}
	return all
}

var protectedTable = []struct{ runs, names string }{
	{"git: hooks, filters, fsmonitor, aliases", ".git .gitmodules .gitconfig .config/git .githooks"},
	{"knack: hooks, skills, MCP servers", ".knack"},

	// Agents: hooks, MCP servers, and skills and commands that run something.
	{"Claude Code, knack and others: hooks, skills, MCP servers", ".claude .agents .mcp.json"},
	{"Pi: extensions, skills", ".pi"},
	{"Cursor: hooks, MCP servers, environments", ".cursor"},
	{"Gemini CLI: hooks, MCP servers", ".gemini"},
	{"Codex: MCP servers, notify", ".codex"},
	{"OpenCode: plugins, MCP servers, formatters", ".opencode opencode.json opencode.jsonc .opencode.json"},
	{"Crush: MCP and language servers", ".crush crush.json .crush.json"},
	{"Kiro: hooks, MCP servers", ".kiro"},
	{"Amazon Q: MCP servers, hooks", ".amazonq"},
	{"Roo Code, Kilo Code, Cline: MCP servers, hooks", ".roo .kilocode .clinerules .cline"},
	{"Qwen Code: hooks, MCP servers", ".qwen"},
	{"Windsurf, Trae, Continue, Augment, Junie, Factory, Amp, Goose, Rovo and others: hooks, MCP servers",
		".windsurf .trae .continue .augment .junie .factory .amp .goose .rovodev .iflow .openhands .qoder .codebuddy .warp"},
	{"Copilot: hooks, agents, MCP servers",
		".copilot .github/hooks .github/agents .github/copilot .github/mcp.json"},
	{"aider: lint and test commands", ".aider.conf.yml .aider.conf.yaml"},

	// Editors: tasks, language servers, local configuration, when a folder is opened.
	{"Visual Studio Code: tasks, settings, MCP servers", ".vscode *.code-workspace"},
	{"JetBrains: run configurations, startup tasks, file watchers", ".idea .run .fleet"},
	{"Zed: tasks, language servers, debuggers", ".zed"},
	{"Visual Studio: tasks", ".vs"},
	{"Vim, Neovim: local configuration",
		".exrc .vimrc _vimrc .nvimrc .nvim.lua .lvimrc .lnvim.lua .local.vimrc .lazy.lua .neoconf.json .vim " +
			".vimspector.json"},
	{"Emacs: local variables", ".dir-locals.el .dir-locals-2.el .emacs .emacs.d"},
	{"Helix: language servers", ".helix"},
	{"Sublime Text: build systems, language servers", "*.sublime-project"},
	{"Nova: tasks", ".nova"},
	{"Kate: language servers, build commands", ".kateproject .kateproject.build"},
	{"rust-analyzer: the command that it checks with", "rust-analyzer.toml .rust-analyzer.toml"},
	{"pylint, run by editors: init-hook, plugins", ".pylintrc pylintrc"},
	{"Development containers and online editors: commands when they start",
		".devcontainer .devcontainer.json .gitpod.yml .gitpod .idx .replit .codesandbox .stackblitzrc .ona devfile.yaml " +
			".devfile.yaml"},

	// Git hooks by other programs, when somebody commits.
	{"husky: git hooks", ".husky .huskyrc .huskyrc.json .huskyrc.js .huskyrc.cjs"},
	{"lefthook: git hooks", "lefthook.yml lefthook.yaml lefthook.toml lefthook.json .lefthook.yml .lefthook.yaml " +
		".lefthook.toml .lefthook.json lefthook-local.yml lefthook-local.yaml .lefthook-local.yml .lefthook " +
		".lefthook-local .config/lefthook.yml"},
	{"pre-commit, prek: git hooks", ".pre-commit-config.yaml .pre-commit-config.yml prek.toml"},
	{"Overcommit, CaptainHook, GrumPHP, hk: git hooks",
		".overcommit.yml .git-hooks captainhook.json grumphp.yml grumphp.yml.dist hk.pkl"},
	{"simple-git-hooks: git hooks", ".simple-git-hooks.js .simple-git-hooks.cjs .simple-git-hooks.json " +
		"simple-git-hooks.js " +
		"simple-git-hooks.cjs simple-git-hooks.json"},
	{"lint-staged, at each commit", ".lintstagedrc .lintstagedrc.json .lintstagedrc.yaml .lintstagedrc.yml " +
		".lintstagedrc.js .lintstagedrc.cjs .lintstagedrc.mjs .lintstagedrc.ts lint-staged.config.js " +
		"lint-staged.config.cjs lint-staged.config.mjs lint-staged.config.ts"},

	// Environments of a directory, when a shell enters it.
	{"direnv, autoenv: when a shell enters the directory",
		".envrc .direnv .config/direnv .autoenv .autoenv.zsh .autoenv.fish .autoenv_leave.zsh"},
	{"mise: hooks, tools, environment, when a shell enters the directory",
		"mise.toml .mise.toml mise.local.toml .mise.local.toml mise.*.toml .mise.*.toml .mise mise/config.toml " +
			".config/mise " +
			".config/mise.toml"},
	{"devbox, devenv, shadowenv, ondir: when a shell enters the directory",
		"devbox.json devenv.nix devenv.yaml devenv.local.nix .shadowenv.d .ondirrc"},

	// Shells, interpreters and debuggers, when they start.
	{"shells: when one starts", ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv " +
		".zprofile .zlogin .zlogout .kshrc .mkshrc .cshrc .tcshrc .login .inputrc .config/fish .config/nushell " +
		".pam_environment"},
	{"interactive interpreters: when one starts",
		".irbrc .pryrc .ghci .ocamlinit .iex.exs .Rprofile .Renviron .pdbrc .psysh.php"},
	{"debuggers: when one starts", ".gdbinit .lldbinit"},

	// Package managers and build tools: programs that they start, or are replaced by, whatever the project contains.
	{"npm: scripts' shell, git, registry", ".npmrc"},
	{"Yarn: its own program and plugins", ".yarnrc .yarnrc.yml .yarn/releases .yarn/plugins"},
	{"pnpm: hooks of each installation", ".pnpmfile.cjs .pnpmfile.mjs .pnpmfile.js pnpmfile.js pnpmfile.cjs pnpmfile.mjs"},
	{"Bun: what it loads before each program", "bunfig.toml"},
	{"pip: where packages come from", ".pypirc"},
	{"cargo, rustup: compiler wrappers, linkers, aliases, toolchains by path", ".cargo rust-toolchain " +
		"rust-toolchain.toml"},
	{"Maven: extensions, options of the Java machine", ".mvn"},
	{"sbt, Mill: options of the Java machine", ".sbtopts .jvmopts .mill-jvm-opts"},
	{"Bazel: wrappers, options of each start", ".bazelrc .bazeliskrc tools/bazel"},

	// The user's own programs, where the home directory is the workspace.
	{"the desktop and the system: when somebody logs in",
		".config/systemd .config/autostart .config/environment.d .xinitrc .xprofile .xsession Library/LaunchAgents"},
	{"programs on PATH", ".local/bin"},
	{"ssh, gpg: commands of their configuration", ".ssh .gnupg"},
	{"tmux, editors: the user's own configuration", ".tmux.conf .config/tmux .config/nvim .config/emacs .config/helix " +
		".config/zed"},
}

// Unwatched reports whether directories of this name are not searched: they are too large, and no program looks for skills
// or settings in them.
func Unwatched(name string) bool {
	switch name {
	case "node_modules", "__pycache__", ".venv", "venv", "target", ".cache", ".tox":
		return true
	}
	return false
}

// protectedNames are the names of the table, as a set.
var protectedNames = sync.OnceValue(func() PathNames {
	var names []string
	for _, p := range ProtectedPaths() {
		names = append(names, p.Name)
	}
	return NewPathNames(names)
})

// PathNames is a set of names in the syntax of [ProtectedPath]. It is immutable; the zero PathNames is empty.
type PathNames struct {
	whole map[string][]string // names without *, by their last element in lower case
	globs []string            // the others
}

// NewPathNames returns the set of these names. Slashes at their ends are ignored.
func NewPathNames(names []string) PathNames {
	n := PathNames{whole: map[string][]string{}}
	for _, name := range names {
		name = strings.Trim(name, "/")
		switch base := strings.ToLower(path.Base(name)); {
		case name == "":
		case strings.Contains(base, "*"):
			n.globs = append(n.globs, name)
		case !slices.Contains(n.whole[base], name):
			n.whole[base] = append(n.whole[base], name)
		}
	}
	return n
}

// Match returns the name that the end of a path matches, whatever the letter case; "" if none does. The path has
// slashes.
func (n PathNames) Match(p string) string { return n.match(strings.ToLower(p)) }

func (n PathNames) match(lower string) string {
	base := lower[strings.LastIndexByte(lower, '/')+1:]
	for _, name := range n.whole[base] {
		if endsIn(lower, strings.ToLower(name)) {
			return name
		}
	}
	for _, name := range n.globs {
		dir, last := path.Split(strings.ToLower(name))
		if glob(last, base) && endsIn(strings.TrimSuffix(lower, base), dir) {
			return name
		}
	}
	return ""
}

// endsIn reports whether the last elements of a path are those of name; "" is the end of every path.
func endsIn(p, name string) bool {
	before, ok := strings.CutSuffix(p, name)
	return ok && (name == "" || before == "" || strings.HasSuffix(before, "/"))
}

// In returns the name that a path or a directory above it matches, and that directory, the topmost one; "" if none
// does.
func (n PathNames) In(p string) (name, at string) {
	lower := strings.ToLower(p)
	for i := 1; i <= len(lower); i++ {
		if i < len(lower) && lower[i] != '/' {
			continue
		}
		if name := n.match(lower[:i]); name != "" {
			if len(lower) != len(p) {
				return name, p // letters whose lower case is longer
			}
			return name, p[:i]
		}
	}
	return "", ""
}
