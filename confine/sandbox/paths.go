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
