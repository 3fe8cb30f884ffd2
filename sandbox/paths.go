package sandbox

// moreSecrets are hidden from commands in addition to permission.Secrets. Tools may read them
// without a question to the user, since no tool of a project reads them.
var moreSecrets = []string{
	"~/.config/doctl",
	"~/.config/rclone", "~/.config/sops", "~/.config/age", "~/.config/containers/auth.json", "~/.oci", "~/.bluemix",
	"~/.config/git/credentials",
	"~/.yarnrc.yml",
	"~/.local/share/kwalletd", "~/.pki",
	// Browser profiles.
	"~/.config/vivaldi", "~/.config/opera", "~/.cache/mozilla", "~/.cache/google-chrome",
	"~/.cache/chromium", "~/snap/firefox", "~/snap/chromium", "~/.var/app",
	"~/Library/Cookies", "~/Library/Safari",
	"~/Library/Application Support/BraveSoftware",
	"~/Library/Application Support/Microsoft Edge", "~/Library/Application Support/Arc",
	// Other agents.
	"~/.aider.conf.yml",
	"~/.config/goose", "~/.cursor/mcp.json", "~/.continue/config.yaml", "~/.local/share/amp/secrets.json",
	// Histories of input.
	"~/.psql_history", "~/.mysql_history",
}

// toolCaches are the directories outside the working directory that ordinary builds write: the
// subdirectory under of the directory in variable or, if that is not set, of otherwise. If the tool
// has no cache yet, it gets one through the variable private.
var toolCaches = []struct{ variable, under, otherwise, private, program string }{
	{"GOCACHE", "", "~/.cache/go-build", "GOCACHE", "go"},
	{"GOMODCACHE", "", "~/go/pkg/mod", "GOMODCACHE", "go"},
	{"npm_config_cache", "", "~/.npm", "npm_config_cache", "npm"},
	{"YARN_CACHE_FOLDER", "", "~/.cache/yarn", "YARN_CACHE_FOLDER", "yarn"},
	{"PNPM_HOME", "store", "~/.local/share/pnpm", "PNPM_HOME", "pnpm"},
	{"BUN_INSTALL", "install/cache", "~/.bun", "BUN_INSTALL_CACHE_DIR", "bun"},
	{"DENO_DIR", "", "~/.cache/deno", "DENO_DIR", "deno"},
	{"PIP_CACHE_DIR", "", "~/.cache/pip", "PIP_CACHE_DIR", "pip3"},
	{"UV_CACHE_DIR", "", "~/.cache/uv", "UV_CACHE_DIR", "uv"},
	{"CARGO_HOME", "registry", "~/.cargo", "CARGO_HOME", "cargo"},
	{"CCACHE_DIR", "", "~/.cache/ccache", "CCACHE_DIR", "ccache"},
	{"GOLANGCI_LINT_CACHE", "", "~/.cache/golangci-lint", "GOLANGCI_LINT_CACHE", "golangci-lint"},
	{"STATICCHECK_CACHE", "", "~/.cache/staticcheck", "STATICCHECK_CACHE", "staticcheck"},
}
