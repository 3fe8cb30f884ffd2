package mcp

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/media/mediatest"
	"github.com/knack-agent/knack/run/tool"
)

// TestItemsThatCannotBeDecoded: one item that the SDK cannot decode costs that item, and not the answer that it is in.
func TestItemsThatCannotBeDecoded(t *testing.T) {
	t.Parallel()
	png := base64.StdEncoding.EncodeToString(mediatest.PNG())
	urlSafe := base64.RawURLEncoding.EncodeToString(mediatest.PNG())
	quoted := `"` + png + `"`
	good := `{"type":"text","text":"good"}`
	image := func(data string) string { return `{"type":"image","mimeType":"image/png","data":` + data + `}` }
	results := map[string]string{ // what the model gets of a list with good and the item
		image(`"%%%"`):   "[The image is left out: its data is not base64.]",
		image(`{"x":1}`): "[The image is left out: its data is not a string.]",
		image(`"data:image/png;base64,` + png + `"`):         "IMAGE",
		image(`"` + urlSafe + `"`):                           "IMAGE",
		image(quoted[:30] + " " + quoted[30:]):               "IMAGE",
		`{"type":"audio","mimeType":"audio/wav","data":"*"}`: "[The audio is left out: its data is not base64.]",
		`{"type":"resource","resource":{"uri":"a:b","mimeType":"image/png","blob":"!"}}`: "[resource a:b]\n" +
			"[Its content is left out: its blob is not base64.]",
		`{"type":"resource","resource":{"uri":"a:b","blob":` + quoted + `,"_meta":7}}`:   "IMAGE",
		`{"type":"resource","resource":{"uri":"a:b","text":{"a":1}}}`:                    "[resource a:b]\n{\"a\":1}",
		`{"type":"text","text":"x","annotations":{"audience":"user","priority":"high"}}`: "x",
		`{"type":"text","text":{"a":1}}`:                                                 `[A part of type "text":]` + "\n" + `{"type":"text","text":{"a":1}}`,
		`{"type":"json","json":{"a":1}}`:                                                 "[A part of type \"json\":]\n{\"type\":\"json\",\"json\":{\"a\":1}}",
		`{"type":"video","data":` + quoted + `}`:                                         "[A part of type \"video\" is left out: it is of no known type.]",
		`{"type":"resource_link","uri":"a:b","name":"n","size":"12"}`:                    "[resource n: a:b]",
		`{"text":"no type"}`: "[A part of type \"\":]\n{\"text\":\"no type\"}",
		`null`:               "",
		`"a string"`:         "a string",
		`17`:                 "17",
	}
	var item string
	s := &scripted{answers: map[string]func(json.RawMessage) any{
		"initialize": func(json.RawMessage) any {
			return json.RawMessage(`{"protocolVersion":"2025-11-25",
				"capabilities":{"tools":{},"prompts":{},"resources":{}}}`)
		},
		"tools/list": func(json.RawMessage) any {
			return json.RawMessage(`{"tools":[
				{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":"yes"}},
				7,{"name":"b","title":3,"description":["x"],"icons":"none","inputSchema":{"type":"object"}}]}`)
		},
		"prompts/list": func(json.RawMessage) any {
			return json.RawMessage(`{"prompts":[{"name":"p","arguments":"none"},{"name":"q"}]}`)
		},
		"tools/call": func(json.RawMessage) any {
			return json.RawMessage(`{"isError":"false","content":[` + good + `,` + item + `]}`)
		},
		"prompts/get": func(json.RawMessage) any {
			return json.RawMessage(`{"messages":[{"role":"user","content":` + good + `},
				{"role":"user","content":` + item + `}]}`)
		},
		"resources/read": func(json.RawMessage) any {
			return json.RawMessage(`{"contents":[{"uri":"a:b","text":"good"},
				{"uri":"a:c","mimeType":"image/png","blob":"!"}]}`)
		},
	}}
	c := client(t, Options{}, Server{Name: "odd", Open: s.open})
	tools := c.Tools(nil)
	if len(tools) != 2 || len(c.Prompts()) != 2 {
		t.Fatalf("%v, %v, %v", tools, c.Prompts(), c.Servers())
	}
	shown := func(parts []llm.Part) string {
		var all []string
		for _, p := range parts {
			if p.Media != nil {
				all = append(all, "IMAGE")
			} else {
				all = append(all, p.Text)
			}
		}
		return strings.Join(all, "\n")
	}
	for one, want := range results {
		item, want = one, strings.TrimSuffix("good\n"+want, "\n")
		res, err := tools[0].Run(t.Context(), tool.Input{ID: "1", JSON: json.RawMessage(`{}`)})
		if err != nil || res.IsError || shown(res.Parts) != want {
			t.Errorf("%s: %v, %q", item, err, shown(res.Parts))
		}
		parts, err := c.Prompt(t.Context(), "mcp__odd__q", "", "", nil)
		if err != nil || shown(parts) != want {
			t.Errorf("prompt %s: %v, %q", item, err, shown(parts))
		}
	}
	parts, err := c.Read(t.Context(), "odd", "a:b")
	if want := "[resource a:b]\ngood\n[resource a:c]\n[Its content is left out: its blob is not base64.]"; err != nil ||
		shown(parts) != want {
		t.Errorf("%v, %q", err, shown(parts))
	}
}

// TestMendedTransports: messages are mended wherever they arrive, and what is none arrives as it was sent.
func TestMendedTransports(t *testing.T) {
	t.Parallel()
	const broken = `{"id":1,"result":{"content":[{"type":"image","data":"%"}]}}`
	const mended = `{"id":1,"result":{"content":[{"text":` +
		`"[The image is left out: its data is not base64.]","type":"text"}]}}`
	for _, c := range []struct{ kind, sent, want string }{
		{"text/event-stream", "event: message\r\ndata: " + broken + "\r\n\r\n: x\ndata:" + broken + "\n\ndata: cut",
			"event: message\r\ndata:" + mended + "\r\n\r\n: x\ndata:" + mended + "\n\ndata: cut"},
		{"application/json; charset=utf-8", strings.Replace(broken, ":", ":\n\n", 1), mended},
		{"application/json", `{"result":` + "\n", `{"result":` + "\n"},
		{"text/html", broken, broken},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", c.kind)
			io.WriteString(w, c.sent)
		}))
		defer s.Close()
		res, err := (&http.Client{Transport: mending{s.Client().Transport, mendMessage}}).Get(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %v\n%s", c.kind, err, got)
		}
	}
}

// TestMendedPrograms: what a program writes is passed on as soon as it is a message, even if its line does not end, and
// what is none as it was written.
func TestMendedPrograms(t *testing.T) {
	t.Parallel()
	in, out := io.Pipe()
	m := mendedValues(in, mendMessage)
	go io.WriteString(out, "{\"id\":\n1}{\"id\":2,\"result\":{\"content\":7}}")
	b := make([]byte, 1000)
	for _, want := range []string{"{\"id\":\n1}\n",
		`{"id":2,"result":{"content":[{"text":"7","type":"text"}]}}` + "\n"} {
		if n, err := m.Read(b); err != nil || string(b[:n]) != want {
			t.Fatalf("%q, %v", b[:n], err)
		}
	}
	go func() {
		io.WriteString(out, "{no message\nand more")
		out.Close()
	}()
	if rest, err := io.ReadAll(m); err != nil || string(rest) != "{no message\nand more" {
		t.Errorf("%q, %v", rest, err)
	}
}

func FuzzMendMessage(f *testing.F) {
	f.Add(`{"id":1,"result":{"content":[{"type":"image","data":"%"},{"type":"x"},null,"a"],"isError":"true"}}`)
	f.Add(`{"result":{"contents":[{"uri":7,"blob":"!"}],"messages":[{"content":["a"]}],"tools":[{"name":3}]}}`)
	f.Fuzz(func(t *testing.T, message string) {
		got := mendMessage([]byte(message))
		if string(got) == message {
			return
		}
		var m struct{ Result json.RawMessage }
		if json.Unmarshal(got, &m) != nil {
			t.Fatalf("%s became %s", message, got)
		}
		var has map[string]json.RawMessage
		if json.Unmarshal(m.Result, &has) != nil {
			t.Fatalf("%s became %s", message, got)
		}
		for _, l := range lists() {
			if value, ok := has[l.key]; ok && l.fits(encoded(map[string]json.RawMessage{l.key: value})) != nil {
				t.Errorf("%s of %s cannot be decoded: %s", l.key, message, got)
			}
		}
	})
}

// TestMendAnswersOfClients: what a client answers is not a server's result, though its content is called the same.
func TestMendAnswersOfClients(t *testing.T) {
	for _, message := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"name":"Ann"}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"role":"assistant","model":"m","content":{"type":"text","text":"x"}}}`,
	} {
		if got := string(mendMessage([]byte(message))); got != message {
			t.Errorf("%s\nbecame %s", message, got)
		}
	}
}
