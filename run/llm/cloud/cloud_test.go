package cloud

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/knack-agent/knack/internal/leaf/nodetest"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/anthropic"
	"github.com/knack-agent/knack/run/llm/google"
	"github.com/knack-agent/knack/run/llm/openai"
)

var update = flag.Bool("update", false, "record the requests of the vendors' libraries in testdata/peers.json")

// A received request is what a server got.
type received struct {
	Path   string            `json:"path"`
	Header map[string]string `json:"header"` // the headers that matter here
	Body   json.RawMessage   `json:"body"`
}

// A recorder is a server that keeps its requests, by the first element of their path, and answers in the format that
// the rest of the path asks for.
type recorder struct {
	*httptest.Server
	mu  sync.Mutex
	got map[string]received
}

func record(t *testing.T) *recorder {
	r := &recorder{got: map[string]received{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (s *recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.RequestURI(), "/"), "/")
	one := received{Path: "/" + path, Header: map[string]string{}, Body: body}
	for k := range r.Header {
		low := strings.ToLower(k)
		if strings.HasPrefix(low, "x-amz-") || low == "authorization" || low == "api-key" || low == "accept" ||
			low == "content-type" || strings.HasPrefix(low, "anthropic-") || strings.Contains(
			r.Header.Get("Authorization"), low) {
			one.Header[low] = strings.ReplaceAll(r.Header.Get(k), s.Listener.Addr().String(), "HOST")
		}
	}
	one.Header["host"] = r.Host
	s.mu.Lock()
	s.got[name] = one
	s.mu.Unlock()
	switch {
	case strings.Contains(path, "invoke-with-response-stream"):
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		w.Write(bedrockStream(name == "throttled"))
	case strings.Contains(path, "streamRawPredict"):
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range messageEvents {
			var kind struct{ Type string }
			json.Unmarshal([]byte(e), &kind)
			io.WriteString(w, "event: "+kind.Type+"\ndata: "+e+"\n\n")
		}
	case strings.Contains(path, "streamGenerateContent"):
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"candidates":[{"content":{"role":"model","parts":[{"text":"Hello"}]},`+
			`"finishReason":"STOP"}]}`+"\r\n\r\n")
	case strings.Contains(path, "chat/completions"):
		w.Header().Set("Content-Type", "text/event-stream")
		// Azure's first chunk has no choice, only what its filters say of the prompt.
		io.WriteString(w, `data: {"choices":[],"prompt_filter_results":[]}`+"\n\n"+
			`data: {"choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	default:
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "event: response.output_text.delta\n"+
			`data: {"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"Hello"}`+
			"\n\nevent: response.completed\n"+`data: {"type":"response.completed","response":{"id":"r","status":"completed",`+
			`"output":[{"type":"message","id":"m","role":"assistant","status":"completed","content":[{"type":`+
			`"output_text","text":"Hello","annotations":[]}]}],"usage":{"input_tokens":1,"output_tokens":1}}}`+"\n\n")
	}
}

var messageEvents = []string{
	`{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"claude","content":[],` +
		`"usage":{"input_tokens":3,"output_tokens":1}}}`,
	`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}`,
	`{"type":"content_block_stop","index":0}`,
	`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`,
	`{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":3,"outputTokenCount":2}}`,
}

// bedrockStream is an answer of Bedrock; a throttled one ends with an exception.
func bedrockStream(throttled bool) []byte {
	var b bytes.Buffer
	for i, e := range messageEvents {
		if throttled && i == 3 {
			b.Write(frame(map[string]string{":message-type": "exception", ":exception-type": "throttlingException",
				":content-type": "application/json"}, []byte(`{"message":"Too many tokens, please wait"}`)))
			break
		}
		payload, _ := json.Marshal(map[string]any{"bytes": []byte(e), "p": "abcdefgh"})
		b.Write(frame(map[string]string{":event-type": "chunk", ":content-type": "application/json",
			":message-type": "event"}, payload))
	}
	return b.Bytes()
}

func frame(headers map[string]string, payload []byte) []byte {
	var h []byte
	for k, v := range headers {
		h = append(append(h, byte(len(k))), k...)
		h = append(binary.BigEndian.AppendUint16(append(h, 7), uint16(len(v))), v...)
	}
	out := binary.BigEndian.AppendUint32(nil, uint32(12+len(h)+len(payload)+4))
	out = binary.BigEndian.AppendUint32(out, uint32(len(h)))
	out = binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
	out = append(append(out, h...), payload...)
	return binary.BigEndian.AppendUint32(out, crc32.ChecksumIEEE(out))
}

// hello is the request that all send.
func hello() *llm.Request {
	return &llm.Request{System: "Be brief.", Messages: []llm.Message{{Role: llm.User, Parts: []llm.Part{llm.Text("hi")}}},
		MaxTokens: 100, Tools: []llm.ToolSpec{{Name: "read", Description: "Reads", Schema: []byte(
			`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)}}}
}

// A request of each kind: how our part and the vendors' libraries are told to send it.
var cases = []struct {
	name, model string
	kind        Kind
	open        func(llm.Endpoint) llm.Model
	base        string
	key         string
}{
	{"signed", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", Bedrock, anthropic.New, "", ""},
	{"arn", "arn:aws:bedrock:eu-west-1:1:application-inference-profile/a", Bedrock, anthropic.New, "", ""},
	{"bearer", "global.anthropic.claude-opus-5-5", Bedrock, anthropic.New, "", "bearer"},
	{"throttled", "global.anthropic.claude-opus-5-5", Bedrock, anthropic.New, "", ""},
	{"vertex", "claude-haiku-4-5@20251001", Vertex, anthropic.New, "/v1", "token"},
	{"gemini", "gemini-3.8-flash", Vertex, google.New, "/v1beta1", "token"},
	{"chat", "my-chat", Azure, openai.Chat, "", "key"},
	{"responses", "my-model", Azure, openai.Responses, "", "key"},
}

var environment = map[string]string{"AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret",
	"AWS_SESSION_TOKEN": "session", "AWS_REGION": "eu-west-1", "CLOUD_ML_REGION": "us-east5",
	"ANTHROPIC_VERTEX_PROJECT_ID": "proj", "OPENAI_API_VERSION": "2025-04-01-preview"}

// ours sends the requests as the program does.
func ours(t *testing.T, s *recorder) map[string]string {
	seen := map[string]string{}
	for _, c := range cases {
		way, err := Open(c.kind, c.model, c.name == "gemini", c.name == "chat", Options{Base: s.URL + "/" + c.name + c.base, Key: c.key,
			Getenv: func(name string) string { return environment[name] },
			Now:    func() time.Time { return time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC) }})
		if err != nil {
			t.Fatal(c.name, err)
		}
		e := llm.Endpoint{Name: c.model, Cloud: way, Key: c.key, Header: http.Header{}}
		if c.kind == Bedrock || c.name == "vertex" {
			e.Header.Set("Anthropic-Beta", "one-2026-01-01,two-2026-01-01")
		}
		seen[c.name] = ask(t.Context(), c.open(e))
	}
	return seen
}

func ask(ctx context.Context, m llm.Model) (text string) {
	for ev, err := range m.Stream(ctx, hello()) {
		text += ev.Text
		if err != nil {
			text += " error " + err.Error()
		}
	}
	return text
}

// vendors returns the bodies that the vendors' own servers get, by format.
func vendors(t *testing.T) map[string]json.RawMessage {
	s := record(t)
	all := map[string]json.RawMessage{}
	for name, open := range map[string]func(llm.Endpoint) llm.Model{"messages": anthropic.New, "gemini": google.New,
		"chat": openai.Chat, "responses": openai.Responses} {
		ask(t.Context(), open(llm.Endpoint{Name: "m", BaseURL: s.URL + "/" + name}))
		all[name] = s.got[name].Body
	}
	return all
}

// recorded is what is stored of the vendors' libraries.
type recorded struct {
	Requests map[string]received `json:"requests"`
	Seen     map[string]string   `json:"seen"` // the texts that they got
}

// TestPeerLibraries: the vendors' libraries send what is recorded, and read the answers as recorded. -update records.
func TestPeerLibraries(t *testing.T) {
	npm := nodetest.Dir(t)
	given, err := json.Marshal(vendors(t))
	if err != nil {
		t.Fatal(err)
	}
	s := record(t)
	cmd := exec.Command(nodetest.Program(npm), "testdata/peers.mjs", s.URL, string(given))
	cmd.Env = append(os.Environ(), "KNACK_NPM="+npm)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	got := recorded{Requests: s.got}
	if err := json.Unmarshal(out, &got.Seen); err != nil {
		t.Fatal(err)
	}
	if *update {
		data, err := json.MarshalIndent(got, "", "\t")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("testdata/peers.json", append(data, '\n'), 0o666); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := load(t)
	if !reflect.DeepEqual(got.Seen, want.Seen) {
		t.Errorf("they read %q, recorded is %q", got.Seen, want.Seen)
	}
	for name, w := range want.Requests {
		g := got.Requests[name]
		if g.Path != w.Path || !same(g.Body, w.Body) {
			t.Errorf("%s: %s %s, recorded is %s %s", name, g.Path, g.Body, w.Path, w.Body)
		}
		checkSignature(t, name, g)
	}
}

func load(t *testing.T) (r recorded) {
	data, err := os.ReadFile("testdata/peers.json")
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func same(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// TestRequests: requests are those of the vendors' libraries, and answers are read as they read them.
func TestRequests(t *testing.T) {
	t.Parallel()
	want, s := load(t), record(t)
	seen := ours(t, s)
	for _, c := range cases {
		g, w := s.got[c.name], want.Requests[c.name]
		if g.Path != w.Path {
			t.Errorf("%s: the path %s, not %s", c.name, g.Path, w.Path)
		}
		for _, name := range []string{"api-key", "anthropic-version", "x-amz-security-token", "content-type"} {
			if g.Header[name] != w.Header[name] {
				t.Errorf("%s: %s: %q, not %q", c.name, name, g.Header[name], w.Header[name])
			}
		}
		if a := w.Header["authorization"]; !strings.HasPrefix(a, algorithm) && g.Header["authorization"] != a {
			t.Errorf("%s: authorization: %q, not %q", c.name, g.Header["authorization"], a)
		}
		ours, theirs := g.Body, w.Body
		if want := version(c.kind, c.name); want != "" { // the library names a later one, whose answers we do not know
			if got := string(member(ours, "anthropic_version")); got != `"`+want+`"` {
				t.Errorf("%s: the version is %s", c.name, got)
			}
			ours, theirs = without(ours, "anthropic_version"), without(theirs, "anthropic_version")
		}
		if c.name == "chat" { // the library is told what servers of others take
			theirs = bytes.ReplaceAll(theirs, []byte(`"max_tokens"`), []byte(`"max_completion_tokens"`))
		}
		if c.name == "gemini" { // the library has other names for the rest
			ours, theirs = member(ours, "contents"), member(theirs, "contents")
		}
		if !same(ours, theirs) {
			t.Errorf("%s: the body\n%s\nnot\n%s", c.name, flat(ours), flat(theirs))
		}
		checkSignature(t, c.name, g)
		checkSignature(t, c.name+" of the library", w)
		if !strings.HasPrefix(seen[c.name], "Hello") || strings.Contains(seen[c.name], "error") !=
			strings.Contains(want.Seen[c.name], "error") {
			t.Errorf("%s: we read %q, they %q", c.name, seen[c.name], want.Seen[c.name])
		}
	}
	if !strings.Contains(seen["throttled"], "Too many tokens, please wait") {
		t.Error(seen["throttled"])
	}
}

func version(k Kind, name string) string {
	switch {
	case k == Bedrock:
		return "bedrock-2023-05-31"
	case name == "vertex":
		return "vertex-2023-10-16"
	}
	return ""
}

func without(data json.RawMessage, name string) json.RawMessage {
	var all map[string]json.RawMessage
	json.Unmarshal(data, &all)
	delete(all, name)
	out, _ := json.Marshal(all)
	return out
}

func member(data json.RawMessage, name string) json.RawMessage {
	var all map[string]json.RawMessage
	json.Unmarshal(data, &all)
	return all[name]
}

// checkSignature computes the signature of a request again, from what its server got.
func checkSignature(t *testing.T, name string, r received) {
	t.Helper()
	auth, ok := strings.CutPrefix(r.Header["authorization"], algorithm+" ")
	if !ok {
		return
	}
	part := map[string]string{}
	for p := range strings.SplitSeq(auth, ", ") {
		k, v, _ := strings.Cut(p, "=")
		part[k] = v
	}
	q, err := http.NewRequest(http.MethodPost, "http://"+r.Header["host"]+"/"+strings.Fields(name)[0]+r.Path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range r.Header {
		q.Header.Set(k, v)
	}
	_, scope, _ := strings.Cut(part["Credential"], "/")
	if got := signature(q, r.Header["x-amz-content-sha256"], strings.Split(part["SignedHeaders"], ";"), "secret",
		r.Header["x-amz-date"], scope); got != part["Signature"] || got == "" {
		t.Errorf("%s: the signature is %s, not %s", name, part["Signature"], got)
	}
}

func flat(data json.RawMessage) string {
	var b bytes.Buffer
	json.Compact(&b, data)
	return b.String()
}
