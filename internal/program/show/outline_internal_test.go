package show

import (
	"strings"
	"testing"
)

// TestOutline: every value can be told from every other, in few rows.
func TestOutline(t *testing.T) {
	long := strings.Repeat("word ", 50) + "end"
	for in, want := range map[string]string{
		`[{"id":"a","prompt":"Do it: now"},{"id":"b","prompt":"x\ny"}]`: "- id: a\n  prompt: 'Do it: now'\n- id: b\n" +
			"  prompt: |-\n    x\n    y",
		`{"z":1,"a":12345678901234567890,"t":true,"s":"true","n":null,"ns":"null","e":[],"o":{},"num":"12"}`: "z: 1\na: " +
			"12345678901234567890\nt: true\ns: \"true\"\nn: null\nns: \"null\"\ne: []\no: {}\nnum: \"12\"",
		`["\ud83d\ude00","a\u001b[31m"," x ","#","- y"]`: "- \"\\U0001F600\"\n- \"a\\e[31m\"\n- ' x '\n- '#'\n- '- y'",
		`["` + long + `"]`: "- " + long,
		`{"a":`:            `{"a":`,
	} {
		if got := outline([]byte(in)); got != want {
			t.Errorf("%s\ngot:\n%s\nwant:\n%s", in, got, want)
		}
	}
}
