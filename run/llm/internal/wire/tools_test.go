package wire

import (
	"encoding/json"
	"iter"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/schema"
)

// TestRefusedTools: the tool that a refusal names is left out of the second request and of all that follow, also if a
// gateway names it only in "param".
func TestRefusedTools(t *testing.T) {
	data, err := os.ReadFile("testdata/tools.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases := strings.Split(strings.TrimSpace(string(data))+"\nread param Invalid schema", "\n")
	for _, line := range cases {
		word := strings.SplitN(line, " ", 3)
		if word[0] == "#" {
			continue
		}
		report := map[string]any{"message": strings.ReplaceAll(word[2], `\n`, "\n")}
		if word[1] == "param" {
			report["param"] = "tools[1].function.parameters"
		}
		body, _ := json.Marshal(map[string]any{"error": report})
		var sent []string
		var leftOut []string
		req := &llm.Request{LeftOut: func(tool, reason string) {
			if !strings.HasPrefix(reason, "the provider refused its definition: ") {
				t.Error(reason)
			}
			leftOut = append(leftOut, tool)
		}}
		for _, name := range []string{"files_list", "read", "web_fetch", "mcp__docs__search"} {
			req.Tools = append(req.Tools, llm.ToolSpec{Name: name,
				Schema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","pattern":"^a$"}}}`)})
		}
		var m Mends
		ask := func(made map[string]bool) iter.Seq2[llm.Event, error] {
			return func(yield func(llm.Event, error) bool) {
				var names []string
				for _, t := range m.Tools(schema.Chat, req, made) {
					names = append(names, t.Name)
				}
				if made[PlainSchemas.Name] {
					names = append(names, "plain")
				}
				if sent = append(sent, strings.Join(names, ",")); len(sent) == 1 {
					yield(llm.Event{}, StatusError(ep, 400, nil, body))
					return
				}
				yield(llm.Event{Done: &llm.Response{}}, nil)
			}
		}
		for range 2 {
			for _, err := range m.Stream(schema.Chat, req, []Mend{PlainSchemas}, ask) {
				if err != nil && word[0] != "-" {
					t.Error(line, err)
				}
			}
		}
		want := "files_list,read,web_fetch,mcp__docs__search"
		var out []string
		switch word[0] {
		case "-":
		case "plain":
			want += ",plain"
		default:
			out = strings.Split(word[0], ",")
			for _, name := range out {
				want = strings.Trim(strings.Replace(","+want+",", ","+name+",", ",", 1), ",")
			}
		}
		if last := sent[len(sent)-1]; last != want || word[0] != "-" && len(sent) != 3 || sent[1] != last {
			t.Errorf("%s: sent %q", line, sent)
		}
		if !slices.Equal(leftOut, slices.Concat(out, out)) {
			t.Errorf("%s: told of %q", line, leftOut)
		}
	}
}
