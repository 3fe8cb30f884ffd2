package propose

import (
	"testing"

	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/tooltest"
)

func TestSchemas(t *testing.T) { tooltest.Schemas(t, tool.Set{define(nil, true)}) }
