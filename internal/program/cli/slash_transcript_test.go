//go:build unix

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// TestTalkBranches: fork, clone, tree, export, copy and share at a terminal.
func TestTalkBranches(t *testing.T) {
	t.Parallel()
	d := newFixture(t, serve(t,
		llmtest.Answer{When: "^one$", Text: "First answer."},
		llmtest.Answer{When: "^two$", Want: []string{"First answer"}, Text: "Second answer."},
		llmtest.Answer{When: "^three$", Want: []string{"First answer"}, Text: "Third answer."},
		llmtest.Answer{When: "^four$", Want: []string{"First answer", "Third answer"}, Text: "Fourth answer."},
		llmtest.Answer{When: "^five$", Text: "Fifth answer."},
	))
	bin := filepath.Join(filepath.Dir(d.dir), "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"gh": "#!/bin/sh\nprintf '%s ' \"$1\" \"$2\" \"$#\" >\"$HOME/gh.txt\"\ngrep -c 'Third answer' \"$3\" " +
			">>\"$HOME/gh.txt\"\necho https://gist.example/1\n",
		"pbcopy": "#!/bin/sh\ncat >\"$HOME/copied.txt\"\n",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d.env = append(d.env, "PATH="+bin+":"+os.Getenv("PATH"), "DISPLAY=", "WAYLAND_DISPLAY=")
	home := func(name string) string {
		data, _ := os.ReadFile(filepath.Join(filepath.Dir(d.dir), name))
		return strings.TrimSpace(string(data))
	}

	k := d.open(t, "--session-id", "first")
	k.enters("/export")
	k.expect("this session is still empty")
	k.enters("one")
	k.expect(`First answer\.`)
	k.enters("two")
	k.expect(`Second answer\.`)
	k.enters("/tree")
	k.expect(`\* +(\d+) +one`)
	k.expect(`\* +5 +two`)
	k.enters("/tree 99")
	k.expect("session first has no entry 99")
	k.enters("/tree 5")
	k.expect("at entry 4. What came after it stays")
	k.expect("your message there:\r\ntwo")
	k.enters("three")
	k.expect(`Third answer\.`)
	k.enters("/tree")
	k.expect(`  +5 +two`)
	k.expect(`\* +9 +three +\(from 4\)`)
	k.enters("/clone")
	k.expect(`continuing in \d{8}-\d{6}-[0-9a-f]{8}, 2 turns; first is unchanged`)
	k.enters("four")
	k.expect(`Fourth answer\.`)
	k.enters("/copy")
	k.expect("copied, 14 characters")
	if got := home("copied.txt"); got != "Fourth answer." {
		t.Errorf("copied %q", got)
	}
	k.enters("/export out.md")
	k.expect("Written, and readable only by you: .*/out.md")
	k.enters("/export out.md")
	k.expect("out.md exists already")
	k.enters("/share")
	k.expect("secret gist of yours")
	k.types("no\r")
	k.expect("Nothing was shared")
	if got := home("gh.txt"); got != "" {
		t.Errorf("gh was called with %q", got)
	}
	k.enters("/share")
	k.expect("secret gist of yours")
	k.types("1\r")
	k.expect("shared: https://gist.example/1")
	if got := home("gh.txt"); got != "gist create 3 1" {
		t.Errorf("gh was called with %q", got)
	}
	k.enters("/fork")
	k.expect(`\d+ +one\r\n +(\d+) +three`)
	k.enters("/fork 2")
	k.expect("continuing in .*, 0 turns")
	k.expect("your message there:\r\none")
	k.enters("five")
	k.expect(`Fifth answer\.`)
	k.leaves()
	data, err := os.ReadFile(filepath.Join(d.dir, "out.md"))
	if err != nil || !strings.Contains(string(data), "Third answer.") || strings.Contains(string(data), "Second answer.") {
		t.Errorf("%v, exported\n%s", err, data)
	}
}
