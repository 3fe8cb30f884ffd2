package engine

import (
	"fmt"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/cloud"
	"github.com/knack-agent/knack/run/llm/models"
)

// cloudVariables are variables about clouds that count in the env of the user's settings of Claude Code, too. None of
// them names a file or a program.
var cloudVariables = []string{"CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
	"CLAUDE_CODE_SKIP_VERTEX_AUTH", "AWS_REGION", "AWS_PROFILE", "CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID"}

// openCloud sets how a model of a cloud is reached.
func (m *Models) openCloud(e *llm.Endpoint, p models.Provider, format models.Format) error {
	c, err := cloud.Open(cloud.Kind(p.Cloud), e.Name, format == models.Gemini, format == models.Chat, cloud.Options{
		Getenv: m.getenv, Home: m.Env.Home(), Base: e.BaseURL, Key: e.Key, Bearer: e.Bearer, Client: e.Client})
	if err != nil {
		return &Error{Err: fmt.Errorf("%s: %w", p.Name, err), Hint: "knack help models", Exit: ExitUsage}
	}
	e.Cloud = c
	return nil
}
