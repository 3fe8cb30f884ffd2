package cli

import (
	"bytes"
	"context"
	"testing"

	"github.com/knack-agent/knack/engine"
)

func TestPermissionCheckExit(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		want int
		args []string
	}{
		{0, []string{"bash", `{"command":"ls"}`}},
		{int(engine.ExitRefused), []string{"bash", `{"command":"make"}`}},
		{int(engine.ExitRefused), []string{"--deny", "Bash", "bash", `{"command":"ls"}`}},
		{int(engine.ExitUsage), []string{"--allow", "Bash(", "bash", `{"command":"ls"}`}},
		{int(engine.ExitUsage), []string{"--nope", "bash", `{}`}},
		{int(engine.ExitUsage), []string{"bash"}},
	} {
		var out, errs bytes.Buffer
		if got := run(context.Background(), append([]string{"permission", "check"}, c.args...), nil, &out,
			&errs); got != c.want {
			t.Errorf("%v: exit %d, want %d; %s", c.args, got, c.want, errs.String())
		}
	}
}
