package cli

import (
	"bytes"
	"context"
	"testing"
)

func TestPermissionCheckExit(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, c := range []struct {
		want int
		args []string
	}{
		{0, []string{"bash", `{"command":"ls"}`}},
		{exitRefused, []string{"bash", `{"command":"make"}`}},
		{exitRefused, []string{"--deny", "Bash", "bash", `{"command":"ls"}`}},
		{exitUsage, []string{"--allow", "Bash(", "bash", `{"command":"ls"}`}},
		{exitUsage, []string{"--nope", "bash", `{}`}},
		{exitUsage, []string{"bash"}},
	} {
		var out, errs bytes.Buffer
		if got := run(context.Background(), append([]string{"permission", "check"}, c.args...), nil, &out, &errs); got != c.want {
			t.Errorf("%v: exit %d, want %d; %s", c.args, got, c.want, errs.String())
		}
	}
}
