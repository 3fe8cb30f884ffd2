package tool_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
)

type sample struct {
	Path   string         `json:"path"`
	Offset int            `json:"offset,omitempty"`
	Ratio  float64        `json:"ratio,omitempty"`
	Deep   *bool          `json:"deep,omitempty"`
	Names  []string       `json:"names,omitempty"`
	Edits  []edit         `json:"edits,omitempty"`
	Opt    *opt           `json:"opt,omitempty"`
	Map    map[string]int `json:"map,omitempty"`
}

type edit struct {
	Old string `json:"old"`
	New string `json:"new"`
	All bool   `json:"all,omitempty"`
}

type opt struct {
	N int `json:"n"`
}

// echoTool returns its input as it was run.
func echoTool() tool.Tool {
	t := tool.New("sample", "For tests.", func(_ context.Context, _ sample, call tool.Input) (tool.Result, error) {
		return tool.Text(string(call.JSON)), nil
	})
	t.Fields = []tool.Field{{Name: "path", Other: []string{"file_path"}}}
	return t
}

func call(t testing.TB, tools tool.Set, name, input string) tool.Result {
	return tool.Call(t.Context(), tools, llm.ToolCall{ID: "1", Name: name, Input: json.RawMessage(input)}, tool.AllowAll,
		nil)
}

func text(r tool.Result) string {
	var b strings.Builder
	for _, p := range r.Parts {
		b.WriteString(p.Text)
	}
	return b.String()
}

func TestFold(t *testing.T) {
	for in, want := range map[string]string{
		`{"path":"a"}`:                                       `{"path":"a"}`,
		`{"file_path":"a"}`:                                  `{"path":"a"}`,
		`{"file_path":null,"path":"a"}`:                      `{"path":"a"}`,
		`"{\"path\":\"a\"}"`:                                 `{"path":"a"}`,
		`{"path":"a","offset":"1"}`:                          `{"path":"a","offset":1}`,
		`{"path":"a","offset":" 12 "}`:                       `{"path":"a","offset":12}`,
		`{"path":"a","offset":5.0}`:                          `{"path":"a","offset":5}`,
		`{"path":"a","offset":"1e3"}`:                        `{"path":"a","offset":1000}`,
		`{"path":"a","ratio":"0.5"}`:                         `{"path":"a","ratio":0.5}`,
		`{"path":"a","deep":"true"}`:                         `{"path":"a","deep":true}`,
		`{"path":"a","deep":"False"}`:                        `{"path":"a","deep":false}`,
		`{"path":"a","offset":null,"deep":null}`:             `{"path":"a"}`,
		`{"path":"a","unknown":null}`:                        `{"path":"a"}`,
		`{"path":12}`:                                        `{"path":"12"}`,
		`{"path":true}`:                                      `{"path":"true"}`,
		`{"path":"12"}`:                                      `{"path":"12"}`,
		`{"path":"null"}`:                                    `{"path":"null"}`,
		`{"path":"[1]"}`:                                     `{"path":"[1]"}`,
		`{"path":"a","names":"[\"x\",\"y\"]"}`:               `{"path":"a","names":["x","y"]}`,
		`{"path":"a","names":[1,"2"]}`:                       `{"path":"a","names":["1","2"]}`,
		`{"path":"a","edits":"[{\"old\":\"x\",\"new\":1}]"}`: `{"path":"a","edits":[{"old":"x","new":"1"}]}`,
		`{"path":"a","edits":["{\"old\":\"x\",\"new\":\"y\",\"all\":\"true\"}"]}`: `{"path":"a","edits":[{"old":"x",` +
			`"new":"y","all":true}]}`,
		`{"path":"a","opt":"{\"n\":\"3\"}"}`:     `{"path":"a","opt":{"n":3}}`,
		`{"path":"a","map":{"k":"3"}}`:           `{"path":"a","map":{"k":3}}`,
		`{"path":"<&>"}`:                         `{"path":"<&>"}`,
		`{"path":"a","offset":1e18}`:             `{"path":"a","offset":1000000000000000000}`,
		`{"path":"a","offset":9007199254740993}`: `{"path":"a","offset":9007199254740993}`,
	} {
		got := call(t, tool.Set{echoTool()}, "sample", in)
		if got.IsError || text(got) != want {
			t.Errorf("%s\n got %s\nwant %s", in, text(got), want)
		}
	}
}

func TestBadInput(t *testing.T) {
	for in, want := range map[string]string{
		``:     "Invalid input for sample: path: missing\nReceived: nothing",
		`null`: "Invalid input for sample: path: missing\nReceived: null",
		`{}`:   "Invalid input for sample: path: missing\nReceived: {}",
		`[]`:   "Invalid input for sample: want an object, got an array\nReceived: []",
		`5`:    "Invalid input for sample: want an object, got the number 5\nReceived: 5",
		`"hello"`: "Invalid input for sample: want an object, got the string \"hello\"\nReceived: " +
			"\"hello\"",
		`{"path":"a"`: "Invalid input for sample: it is not valid JSON: it ends too early\nReceived: " +
			"{\"path\":\"a\"",
		`{"path":"a"}}`: "Invalid input for sample: it is not valid JSON: there is more text after the " +
			"value\nReceived: {\"path\":\"a\"}}",
		`{"path":null}`: "Invalid input for sample: path: missing\nReceived: {\"path\":null}",
		`{"path":"a","deep":"5"}`: "Invalid input for sample: deep: want a boolean, got the string \"5\"\nReceived: " +
			"{\"path\":\"a\",\"deep\":\"5\"}",
		`{"path":["a"]}`: "Invalid input for sample: path: want a string, got an array\nReceived: " +
			"{\"path\":[\"a\"]}",
		`{"path":"a","offset":"ten"}`: "Invalid input for sample: offset: want an integer, got the string " +
			"\"ten\"\nReceived: {\"path\":\"a\",\"offset\":\"ten\"}",
		`{"path":"a","offset":1.5}`: "Invalid input for sample: offset: want an integer, got 1.5\nReceived: " +
			"{\"path\":\"a\",\"offset\":1.5}",
		`{"path":"a","offset":99999999999999999999}`: "Invalid input for sample: offset: want an integer, got " +
			"99999999999999999999\nReceived: {\"path\":\"a\",\"offset\":99999999999999999999}",
		`{"path":"a","ratio":1e400}`: "Invalid input for sample: ratio: 1e400 is out of range\nReceived: " +
			"{\"path\":\"a\",\"ratio\":1e400}",
		`{"path":"a","offest":1}`: "Invalid input for sample: offest: no such field; did you mean " +
			"offset?\nReceived: {\"path\":\"a\",\"offest\":1}",
		`{"path":"a","Path":"b"}`: "Invalid input for sample: Path: no such field; did you mean " +
			"path?\nReceived: {\"path\":\"a\",\"Path\":\"b\"}",
		`{"path":"a","quux":1}`: "Invalid input for sample: quux: no such field; the fields are " +
			"deep, edits, map, names, offset, opt, path, ratio\nReceived: {\"path\":\"a\",\"quux\":1}",
		`{"deep":3,"edits":[{"old":"x"},{"old":[],"new":"y"},7],"opt":{}}`: `Invalid input for sample: 6 faults
- path: missing
- deep: want a boolean, got the number 3
- edits[0].new: missing
- edits[1].old: want a string, got an array
- edits[2]: want an object, got the number 7
- opt.n: missing
Received: {"deep":3,"edits":[{"old":"x"},{"old":[],"new":"y"},7],"opt":{}}`,
	} {
		got := call(t, tool.Set{echoTool()}, "sample", in)
		if !got.IsError || text(got) != want {
			t.Errorf("%s\n got %s\nwant %s", in, text(got), want)
		}
	}
	long := `{"path":"` + strings.Repeat("é", 5000) + `","x":1}`
	if got := text(call(t, tool.Set{echoTool()}, "sample", long)); len(got) > 1300 ||
		!strings.HasSuffix(got, "é… (10017 bytes in all)") {
		t.Errorf("the echo is not limited: %d bytes, %q", len(got), got[max(0, len(got)-40):])
	}
}

// Schemas of other origin: references, alternatives, enums and bounds, and one that cannot be parsed, whose tool must
// validate its input itself.
func TestForeignSchema(t *testing.T) {
	foreign := tool.Tool{
		Name: "f",
		Schema: json.RawMessage(`{"type":"object","required":["mode"],"$defs":{"n":{"type":"integer","minimum":1}},
			"properties":{"mode":{"enum":["fast","slow"]},"n":{"$ref":"#/$defs/n"},` +
			`"m":{"anyOf":[{"type":"integer"},{"type":"null"}]},
			"list":{"type":"array","maxItems":2,"items":{"$ref":"#/$defs/n"}}}}`),
		Run: func(_ context.Context, call tool.Input) (tool.Result, error) {
			return tool.Text(string(call.JSON)), nil
		},
	}
	for in, want := range map[string]string{
		`{"mode":"fast","n":"3","m":"4",` +
			`"list":["1",2],"extra":null}`: `{"mode":"fast","n":3,"m":4,"list":[1,2],"extra":null}`,
		`{"mode":"fast","m":null}`: `{"mode":"fast"}`,
	} {
		if got := call(t, tool.Set{foreign}, "f", in); got.IsError || text(got) != want {
			t.Errorf("%s: %s", in, text(got))
		}
	}
	got := call(t, tool.Set{foreign}, "f", `{"mode":"medium","n":0,"list":[1,2,3]}`)
	for _, want := range []string{"3 faults", "\n- mode: ", "fast", "\n- n: ", "minimum", "\n- list: ", "maxItems"} {
		if !got.IsError || !strings.Contains(text(got), want) {
			t.Errorf("no %q in %s", want, text(got))
		}
	}
	foreign.Schema = json.RawMessage(`{"type":"object","$ref":"https://example.com/elsewhere.json"}`)
	if got := call(t, tool.Set{foreign}, "f", `{"a":"1"}`); got.IsError || text(got) != `{"a":"1"}` {
		t.Errorf("unreadable schema: %s", text(got))
	}
}

// Any input of a model produces one result of limited size; input that runs matches the schema and does not change
// when normalized again.
func FuzzFold(f *testing.F) {
	for _, s := range []string{``, `{}`, `{"path":"a","offset":"1"}`, `"{\"path\":1}"`, `{"path":"a","edits":"[{}]"}`,
		`{"path":"a","deep":"TRUE","map":{"x":null}}`, `[[[[`, `{"path":"a","offset":1e400}`, "{\"path\":\"\xff\"}"} {
		f.Add(s)
	}
	set := tool.Set{echoTool()}
	f.Fuzz(func(t *testing.T, in string) {
		got := call(t, set, "sample", in)
		if strings.Contains(text(got), "mistake in the tool") {
			t.Fatalf("%q: %s", in, text(got))
		}
		if got.IsError {
			if !strings.HasPrefix(text(got), "Invalid input for sample: ") {
				t.Fatalf("%q: %s", in, text(got))
			}
			return
		}
		var s sample
		if err := json.Unmarshal([]byte(text(got)), &s); err != nil {
			t.Fatalf("%q ran as %s: %v", in, text(got), err)
		}
		if again := call(t, set, "sample", text(got)); again.IsError || text(again) != text(got) {
			t.Fatalf("%q folds to %s, and that to %s", in, text(got), text(again))
		}
	})
}

// TestNormalisedOrder: people read an input in the order in which the model wrote it.
func TestNormalisedOrder(t *testing.T) {
	tl := &tool.Tool{Name: "t", Schema: json.RawMessage(`{"type":"object","properties":{"list":{"type":"array"},` +
		`"number":{"type":"integer"}}}`), Fields: []tool.Field{{Name: "title", Other: []string{"name"}}}}
	for in, want := range map[string]string{
		`{"z":1,"a":"<","list":[{"y":1,"b":2},3]}`:     `{"z":1,"a":"<","list":[{"y":1,"b":2},3]}`,
		`{"z":1, "number":"2", "a":{"d":null,"c":[]}}`: `{"z":1,"number":2,"a":{"d":null,"c":[]}}`,
		`{"z":1,"a":2,"z":3}`:                          `{"z":3,"a":2}`,
		`{"z":1,"name":"n","a":2}`:                     `{"z":1,"a":2,"title":"n"}`,
		`"{\"z\":1,\"a\":2}"`:                          `{"z":1,"a":2}`,
		`{"z":1,"list":"[{\"y\":1,\"b\":2}]"}`:         `{"z":1,"list":[{"y":1,"b":2}]}`,
		``:                                             `{}`,
	} {
		got, err := tl.Normalised(json.RawMessage(in))
		if err != nil || string(got) != want {
			t.Errorf("%s became %s (%v), want %s", in, got, err, want)
		}
	}
}

// TestEndlessSchema: a server's schema that refers to itself without end does not end the program: its tool checks the
// input itself.
func TestEndlessSchema(t *testing.T) {
	for _, schema := range []string{
		`{"type":"object","$ref":"#"}`,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"}]}}}`,
	} {
		x := &tool.Tool{Name: "x", Schema: json.RawMessage(schema)}
		if got, err := x.Normalised(json.RawMessage(`{"a":"1"}`)); err != nil || string(got) != `{"a":"1"}` {
			t.Errorf("%s: %s, %v", schema, got, err)
		}
	}
}
