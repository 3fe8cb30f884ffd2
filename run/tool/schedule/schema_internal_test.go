package schedule

import (
	"testing"

	"github.com/knack-agent/knack/run/tool/tooltest"
)

func TestSchemas(t *testing.T) { tooltest.Schemas(t, Tools(nil, "", nil)) }
