package memory

import (
	"testing"

	"github.com/knack-agent/knack/tool"
	"github.com/knack-agent/knack/tool/tooltest"
)

func TestSchemas(t *testing.T) { tooltest.Schemas(t, tool.Set{Tool(Options{})}) }
