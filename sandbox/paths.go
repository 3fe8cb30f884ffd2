package sandbox

// moreSecrets are kept from commands beside permission.Secrets: what there is
// no need to ask about, since no tool of a project reads it.
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
	// What was typed.
	"~/.psql_history", "~/.mysql_history",
}

// toolCaches are what ordinary builds write outside the working directory.
var toolCaches = []struct{ variable, under, otherwise, program string }{
	{"GOCACHE", "", "~/.cache/go-build", "go"},
	{"GOMODCACHE", "", "~/go/pkg/mod", "go"},
	{"npm_config_cache", "", "~/.npm", "npm"},
	{"YARN_CACHE_FOLDER", "", "~/.cache/yarn", "yarn"},
	{"PNPM_HOME", "store", "~/.local/share/pnpm/store", "pnpm"},
	{"BUN_INSTALL", "install/cache", "~/.bun/install/cache", "bun"},
	{"DENO_DIR", "", "~/.cache/deno", "deno"},
	{"PIP_CACHE_DIR", "", "~/.cache/pip", "pip3"},
	{"UV_CACHE_DIR", "", "~/.cache/uv", "uv"},
	{"CARGO_HOME", "registry", "~/.cargo/registry", "cargo"},
	{"CCACHE_DIR", "", "~/.cache/ccache", "ccache"},
	{"GOLANGCI_LINT_CACHE", "", "~/.cache/golangci-lint", "golangci-lint"},
	{"STATICCHECK_CACHE", "", "~/.cache/staticcheck", "staticcheck"},
}
