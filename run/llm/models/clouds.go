package models

import (
	"regexp"
	"strings"
	"sync"
)

// chosen reports whether the environment chooses a provider, as Claude Code's users do with CLAUDE_CODE_USE_BEDROCK.
func (p Provider) chosen(getenv func(string) string) bool {
	switch strings.ToLower(getenv(p.UseEnv)) {
	case "", "0", "false", "no":
		return false
	}
	return p.UseEnv != ""
}

// likeOf returns the provider whose models a provider's model of that name is like.
func (p Provider) likeOf(name string) string {
	switch {
	case p.Cloud == "vertex" && isGemini(name):
		return "google"
	case p.Cloud == "bedrock" && strings.Contains(name, "openai."):
		return "openai"
	case p.Like != "":
		return p.Like
	}
	return p.Name
}

func isGemini(name string) bool { return strings.HasPrefix(name, "gemini-") }

// isClaude reports whether a name of Bedrock may be that of Claude. An ARN often does not say whose model it is.
func isClaude(name string) bool {
	return strings.Contains(name, "claude") ||
		strings.HasPrefix(name, "arn:") && !strings.Contains(name, "foundation-model/")
}

// vendorName returns a vendor's name for the model that has the name in a cloud: "us.anthropic.claude-opus-4-6-v1",
// "claude-haiku-4-5@20251001".
func vendorName(name string) string {
	for _, vendor := range [...]string{"anthropic.", "openai."} {
		if _, rest, ok := strings.Cut(name, vendor); ok {
			name = cloudVersion().ReplaceAllString(rest, "")
		}
	}
	name, _, _ = strings.Cut(name, "@")
	return withoutDate(name)
}

var cloudVersion = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`-v\d+(:\d+)?$`) })

// cloudName returns a cloud's name for a model that is named as its vendor names it.
func (p Provider) cloudName(name string) string {
	if p.Cloud != "bedrock" || !strings.HasPrefix(name, "claude-") {
		return name
	}
	full := "global.anthropic." + name
	switch name { // later ones have no date and no version
	case "claude-haiku-4-5":
		full += "-20251001-v1:0"
	case "claude-sonnet-4-5":
		full += "-20250929-v1:0"
	case "claude-opus-4-5":
		full += "-20251101-v1:0"
	case "claude-opus-4-6":
		full += "-v1"
	}
	return full
}
