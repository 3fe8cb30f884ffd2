package coding

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
)

// The tools behave the same on a workspace whose files they can reach only through commands.
func TestToolsRemote(t *testing.T) {
	if _, err := exec.LookPath("env"); err != nil {
		t.Skip("the program env does not exist")
	}
	type workspaceTools struct {
		dir string
		set tool.Set
	}
	open := func(elsewhere bool) workspaceTools {
		b := newFixture(t, FileOptions{}, "f=one\ntwo\nthree\n", "crlf=\xef\xbb\xbfa\r\nb\r\n", "d/a.go=func A\n",
			"d/.env=KEY=1\n", "d/x.log=log\n", ".gitignore=*.log\n",
			".git/config=func git\n", "bin=\x00\x01", "big="+numbered(2500), "sp ace/é'x=odd\n", "run.sh=echo")
		cmd := exec.Command("sh", "-c", "ln -s f link && ln f hard && ln -s d dlink && mkfifo fifo && chmod 754 run.sh")
		cmd.Dir = b.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Skipf("%v: %v %s", cmd.Args, err, out)
		}
		var ws workspace.Workspace = b.ws
		if elsewhere {
			var err error
			if ws, err = workspace.NewContainer(t.Context(), []string{"env"}, b.dir, nil); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { ws.Close() })
		return workspaceTools{b.dir, Tools(ws, Options{TempDir: t.TempDir()})}
	}
	local, remote := open(false), open(true)
	call := func(p workspaceTools, name, in string) string {
		res := tool.Call(t.Context(), p.set, llm.ToolCall{ID: "1", Name: name,
			Input: []byte(strings.ReplaceAll(in, "DIR", p.dir))}, tool.AllowAll, nil)
		var b strings.Builder
		fmt.Fprintf(&b, "error %v: ", res.IsError)
		for _, part := range res.Parts {
			b.WriteString(part.Text)
		}
		if c, ok := res.Details.(ChangeDetails); ok {
			data, _ := json.Marshal(c)
			b.Write(data)
		}
		return strings.ReplaceAll(b.String(), p.dir, "DIR")
	}
	for _, c := range []struct{ name, in string }{
		{"read", `{"path":"f"}`}, {"read", `{"path":"link"}`}, {"read", `{"path":"big"}`},
		{"read", `{"path":"big","offset":2001}`}, {"read", `{"path":"bin"}`},
		{"read", `{"path":"fifo"}`}, {"read", `{"path":"nope"}`}, {"read", `{"path":"d"}`}, {"read", `{"path":"f/x"}`},
		{"read", `{"path":"sp ace/é'x"}`}, {"read", `{"path":"DIR/f"}`},
		{"ls", `{}`}, {"ls", `{"path":"dlink"}`}, {"ls", `{"path":"nope"}`}, {"ls", `{"path":"f"}`},
		{"find", `{"pattern":"*"}`}, {"find", `{"pattern":"*.go","path":"dlink"}`}, {"find", `{"pattern":"*","path":"nope"}`},
		{"grep", `{"pattern":"func"}`}, {"grep", `{"pattern":"[ft][uw][no]"}`}, {"grep", `{"pattern":"KEY"}`},
		{"grep", `{"pattern":"two","context":1}`}, {"grep", `{"pattern":"o","path":"f"}`},
		{"grep", `{"pattern":"x","path":"nope"}`},
		{"edit", `{"path":"link","edits":[{"oldText":"two","newText":"TWO"}]}`},
		{"edit", `{"path":"crlf","edits":[{"oldText":"a\nb","newText":"a\nB"}]}`},
		{"edit", `{"path":"nope","edits":[{"oldText":"a","newText":"b"}]}`},
		{"edit", `{"path":"d","edits":[{"oldText":"a","newText":"b"}]}`},
		{"edit", `{"path":"fifo","edits":[{"oldText":"a","newText":"b"}]}`},
		{"write", `{"path":"new/er/file","content":"x"}`}, {"write", `{"path":"run.sh","content":"echo new"}`},
		{"write", `{"path":"f/x","content":""}`}, {"write", `{"path":"d","content":""}`},
		{"write", `{"path":"dlink/made","content":"y"}`},
		{"bash", `{"command":"cat hard; exit 3"}`},
		{"bash", `{"command":"ls -l run.sh | cut -c1-10; readlink link; cat new/er/file d/made"}`},
		{"bash", `{"command":"kill -9 $$"}`}, {"bash", `{"command":"seq 3000 | tail -n +1000 >f"}`},
		// stale
		{"edit", `{"path":"f","edits":[{"oldText":"1001","newText":"x"}]}`}, {"write", `{"path":"link","content":"x"}`},
	} {
		want, got := call(local, c.name, c.in), call(remote, c.name, c.in)
		if got != want {
			t.Errorf("%s %s:\nhere  %.500q\nthere %.500q", c.name, c.in, want, got)
		}
	}
	for _, name := range []string{"f", "crlf", "hard", "run.sh", "new/er/file", "d/made"} {
		one, err1 := os.ReadFile(filepath.Join(local.dir, name))
		two, err2 := os.ReadFile(filepath.Join(remote.dir, name))
		if err1 != nil || err2 != nil || string(one) != string(two) {
			t.Errorf("%s: %q, %v here, %q, %v there", name, one, err1, two, err2)
		}
	}
}
