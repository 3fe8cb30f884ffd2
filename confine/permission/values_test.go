package permission

import (
	"os/exec"
	"strings"
	"testing"
)

func TestWithValues(t *testing.T) {
	env := []string{"KNACK_ARG_0=a.go", `KNACK_ARG_1=x"; rm -rf / #`, "KNACK_VAR_d=/s/dir"}
	for line, want := range map[string]string{
		`git log "$KNACK_ARG_0"`:            `git log "a.go"`,
		`cat "${KNACK_VAR_d}/x" | wc -l`:    `cat "/s/dir/x" | wc -l`,
		`echo "$KNACK_ARG_1"`:               `echo "x\"; rm -rf / #"`,
		`echo $KNACK_ARG_0`:                 `echo $KNACK_ARG_0`,
		`echo "$HOME" '$KNACK_ARG_0'`:       `echo "$HOME" '$KNACK_ARG_0'`,
		`KNACK_ARG_0=b; cat "$KNACK_ARG_0"`: `KNACK_ARG_0=b; cat "$KNACK_ARG_0"`,
		`echo "${KNACK_ARG_0@P}"`:           `echo "${KNACK_ARG_0@P}"`,
		`echo "`:                            `echo "`,
	} {
		if got, _ := WithValues(line, env); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

// A long value does not make a line too long to check; the line itself can be.
func TestLongValues(t *testing.T) {
	for _, c := range []struct {
		line, value string
		want        Verdict
	}{
		{`echo "$KNACK_ARG_0"`, strings.Repeat("x", 90_000), Allow},
		{`echo "$KNACK_ARG_0" "$KNACK_ARG_0"`, strings.Repeat("é$", 20_000), Allow},
		{`echo "$KNACK_ARG_0" ` + strings.Repeat("y", 9_999), "x", Ask},
		{strings.Repeat(`"$KNACK_ARG_0"`, 200), strings.Repeat("x", 64), Ask},
	} {
		text, extra := WithValues(c.line, []string{"KNACK_ARG_0=" + c.value})
		d := Rules{}.Decide(t.Context(), Default, PathContext{Dir: "/w"}, Subject{Kind: "Bash", Text: text, Extra: extra})
		if d.Verdict != c.want {
			t.Errorf("%.40s with %d characters: %v %.80s, want %v", c.line, len(c.value), d.Verdict, d.Reason, c.want)
		}
	}
}

// FuzzWithValues compares the line that is checked with what a real shell runs.
func FuzzWithValues(f *testing.F) {
	for _, v := range []string{"a b", `$(id)`, "`id`", `\`, `\\"`, "!x", "*", "é\n\t", `'`, "$HOME", `\$`} {
		f.Add(v)
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		f.Skip("bash is not installed")
	}
	f.Fuzz(func(t *testing.T, v string) {
		for _, c := range v {
			if c == 0 || c == '\r' || c == 0xfffd {
				t.Skip("not possible in an environment, or in a text file")
			}
		}
		line := `printf '%s|' "$KNACK_ARG_0" "x${KNACK_ARG_0}y"`
		env := []string{"KNACK_ARG_0=" + v}
		run := func(line string) string {
			cmd := exec.Command(bash, "-c", line)
			cmd.Env = append(env, "PATH=/usr/bin:/bin")
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return string(out)
		}
		judged, _ := WithValues(line, env)
		if got, want := run(judged), run(line); got != want {
			t.Errorf("%q: judged %q, runs with %q", v, got, want)
		}
	})
}
