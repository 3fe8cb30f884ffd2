package coding

import (
	"testing"

	"github.com/knack-agent/knack/run/tool/tooltest"
)

func TestSchemas(t *testing.T) {
	tooltest.Schemas(t, append(Tools(nil, Options{Jobs: new(Jobs)}), Monitor(nil, Options{})))
}
