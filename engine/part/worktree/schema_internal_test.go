package worktree

import (
	"testing"

	"github.com/knack-agent/knack/run/tool/tooltest"
)

func TestSchemas(t *testing.T) {
	tooltest.Schemas(t, (*trees)(nil).tools())
}
