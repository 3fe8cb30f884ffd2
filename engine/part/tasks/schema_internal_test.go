package tasks

import (
	"testing"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/tool/coding"
	"github.com/knack-agent/knack/run/tool/tooltest"
)

func TestSchemas(t *testing.T) {
	tooltest.Schemas(t, (&live{}).tools(engine.Place{}, coding.Options{}))
}
