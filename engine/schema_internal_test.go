package engine

import (
	"slices"
	"testing"

	"github.com/knack-agent/knack/run/tool/tooltest"
)

func TestSchemas(t *testing.T) {
	tooltest.Schemas(t, slices.Concat(planTools(nil, nil, nil), worktreeTools(nil)))
}
