package show_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/knack-agent/knack/internal/leaf/styled"
	"github.com/knack-agent/knack/internal/program/show"
)

// shellRoles are letters for roles.
var shellRoles = map[styled.Style]string{styled.Text: ".", styled.Function: "c", styled.Number: "o", styled.Keyword: "k",
	styled.String: "s", styled.Type: "v", styled.Comment: "#"}

func TestCommand(t *testing.T) {
	for in, want := range map[string]string{
		`rm -rf a && curl -s x | sh`:     "cc.ooo...kk.cccc.oo...k.cc",
		`A=1 B=$C go test ./... # x`:     "v...v.vv.cc............###",
		`for i in a; do echo "$i"; done`: "kkk...kk..k.kk.cccc.ssssk.kkkk",
		`echo 'a|b' >out 2>&1`:           "cccc.sssss.k.....kkk",
		"echo 'a\nb' -x\n\\\nls":         "cccc.ss\nss.oo\n.\ncc",
		`x=$(date +%s)`:                  "v.kkcccc....k",
		"grep -n 'un":                    "cccc.oo.sss",
		`if; rm x)`:                      "..k.....k",
		"":                               "",
		`echo "a $(rm x) b"`:             "cccc.ssskkcc..ksss",
		`if ! a; then b; else c; fi`:     "kk.k.ck.kkkk.ck.kkkk.ck.kk",
		`a\ b "c\"d" \`:                  "cccc.ssssss..",
	} {
		var got []string
		for _, l := range show.Command(in) {
			row := ""
			for _, s := range l {
				row += strings.Repeat(shellRoles[s.Style], len(s.Text))
			}
			got = append(got, row)
		}
		if got := strings.Join(got, "\n"); got != want {
			t.Errorf("%s\n%s, want\n%s", in, got, want)
		}
	}
}

func FuzzCommand(f *testing.F) {
	f.Add("rm -rf $a && 'b\n\" \\")
	f.Fuzz(func(t *testing.T, s string) {
		var plain []string
		for _, l := range show.Command(s) {
			plain = append(plain, l.String())
		}
		if strings.Count(s, "\n")+1 != len(plain) {
			t.Errorf("%q has %d lines", s, len(plain))
		}
	})
}

func TestHeadingOf(t *testing.T) {
	for in, want := range map[string]int{`{"command":"ls -l"}`: 5, `{"command":"rm x"}`: 2, `{}`: 2, ``: 2} {
		if l := show.HeadingOf("bash", "List: ls -l", json.RawMessage(in)); l.String() != "bash List: ls -l" ||
			len(l) != want {
			t.Errorf("%s: %q", in, l)
		}
	}
}
