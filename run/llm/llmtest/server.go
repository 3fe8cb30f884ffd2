package llmtest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/knack-agent/knack/run/llm"
)

// Key is the only key that the servers accept.
const Key = "test-key-1234"

// A Server returns the answers of a script, in the format that belongs to the path:
//
//	POST /v1/messages                              Anthropic Messages
//	POST /v1/responses                             OpenAI Responses
//	POST /v1/chat/completions                      OpenAI Chat Completions
//	POST /v1beta/models/NAME:streamGenerateContent Gemini, and :generateContent
//	GET  /v1/models                                one model, test-model
//
// It streams if the request says so, else it answers at once.
// It is strict: a request that the vendor would reject gets the same kind of error, uses no answer,
// and is listed in Refused.
type Server struct {
	URL string // without a path

	http    *httptest.Server
	answers []Answer
	player  player

	mu       sync.Mutex
	requests []Recorded
	refused  []string
	record   io.Writer
	signed   map[string]bool // signatures that this server accepts

	threads Threads
	kept    map[string]anthropicRequest // by the ID of an answer; what was continued is empty
	wholes  []json.RawMessage
}

// A Recorded is one request that a Server received.
type Recorded struct {
	Path   string          `json:"path"`
	Header http.Header     `json:"-"`
	Body   json.RawMessage `json:"body"`
}

// NewServer starts a server on the loopback interface. The caller must close it.
func NewServer(answers ...Answer) *Server {
	s := &Server{answers: answers, signed: map[string]bool{}, kept: map[string]anthropicRequest{}}
	s.http = httptest.NewServer(s)
	s.URL = s.http.URL
	return s
}

// Close stops the server and waits until its requests have ended.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Env returns the environment variables that make a program use the server, for all formats.
func (s *Server) Env() []string {
	return []string{
		"ANTHROPIC_API_KEY=" + Key, "ANTHROPIC_BASE_URL=" + s.URL,
		"OPENAI_API_KEY=" + Key, "OPENAI_BASE_URL=" + s.URL + "/v1",
		"GEMINI_API_KEY=" + Key, "GOOGLE_GEMINI_BASE_URL=" + s.URL,
	}
}

// Record makes the server write each request to w, as a line of JSON, before it answers.
func (s *Server) Record(w io.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record = w
}

// Requests returns the requests received so far.
func (s *Server) Requests() []Recorded {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Refused returns the reasons for which requests were rejected so far.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.refused)
}

// Left returns the number of unused answers.
func (s *Server) Left() int { return s.player.left(s.answers) }

// A format implements one vendor's format.
type format interface {
	// check returns the vendor's error, or "" and the part of the request that a script can match.
	check(s *Server, r *http.Request, body []byte) (v requestText, refusal string)
	// fail returns the body of an error response.
	fail(status int, kind llm.ErrorKind, message string) []byte
	// frames returns an answer as server-sent events.
	frames(s *Server, a *Answer) []string
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	rec := Recorded{r.URL.Path, r.Header.Clone(), body}
	if !json.Valid(body) { // also for an empty body
		rec.Body, _ = json.Marshal(string(body))
	}
	s.requests = append(s.requests, rec)
	if s.record != nil {
		line, _ := json.Marshal(rec)
		s.record.Write(append(line, '\n'))
	}
	s.mu.Unlock()

	if r.URL.Path == "/v1/models" {
		if k := cmp.Or(r.Header.Get("X-Api-Key"), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")); k != "" &&
			k != Key { // local servers need none
			http.Error(w, "invalid key", http.StatusUnauthorized)
			return
		}
		json.NewEncoder(w).Encode(object{"object": "list", "data": []object{{"id": "test-model", "object": "model"}}})
		return
	}
	var f format
	var key string
	switch path := r.URL.Path; {
	case path == "/v1/messages":
		f, key = &anthropicFormat{}, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if key == "" {
			key = r.Header.Get("X-Api-Key")
		}
	case path == "/v1/chat/completions":
		f, key = chatFormat{}, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	case path == "/v1/responses":
		f, key = responsesFormat{}, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	case strings.HasPrefix(path, "/v1beta/models/") && (strings.HasSuffix(path, ":streamGenerateContent") ||
		strings.HasSuffix(path, ":generateContent")):
		f, key = geminiFormat{}, r.Header.Get("X-Goog-Api-Key")
	default:
		http.NotFound(w, r)
		return
	}
	refuse := func(status int, kind llm.ErrorKind, message string) {
		s.mu.Lock()
		s.refused = append(s.refused, message)
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		w.Write(f.fail(status, kind, message))
	}
	if r.Method != http.MethodPost || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		refuse(400, llm.Invalid, "POST application/json only")
		return
	}
	if key != Key {
		refuse(401, llm.Auth, "invalid key")
		return
	}
	if why := badText(body); why != "" {
		refuse(400, llm.Invalid, "The request body is not valid JSON: "+why)
		return
	}
	v, refusal := f.check(s, r, body)
	if refusal != "" {
		refuse(400, llm.Invalid, refusal)
		return
	}
	a, err := s.player.next(s.answers, v)
	if err != nil {
		refuse(400, llm.Invalid, err.Error())
		return
	}
	if !wait(r.Context(), a.Delay) {
		return
	}
	if a.Error != nil {
		status := a.Error.Status
		if status == 0 {
			status = statusOf(a.Error.Kind)
		}
		if a.Error.RetryAfter > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(a.Error.RetryAfter.Seconds()))
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		w.Write(f.fail(status, a.Error.Kind, a.Error.Message))
		return
	}
	frames, kind := f.frames(s, &a), "text/event-stream; charset=utf-8"
	if !streams(r, body) {
		frames, kind = []string{whole(frames)}, "application/json"
	}
	w.Header().Set("Content-Type", kind)
	send(w, r, f, &a, frames)
}

// streams reports whether a request wants its answer as a stream.
func streams(r *http.Request, body []byte) bool {
	var req struct {
		Stream bool `json:"stream"`
	}
	return strings.HasSuffix(r.URL.Path, ":streamGenerateContent") || json.Unmarshal(body, &req) == nil && req.Stream
}

// surrogates matches an escaped backslash, a surrogate pair, or half of one.
var surrogates = regexp.MustCompile(`\\\\|\\u[dD][89abAB]..(\\u[dD][c-fC-F]..)?|\\u[dD][c-fC-F]..`)

// badText explains why vendors reject the characters of a body; "" if they do not.
func badText(body []byte) string {
	if !utf8.Valid(body) {
		return "invalid UTF-8"
	}
	for _, m := range surrogates.FindAll(body, -1) {
		if len(m) == len(`\ud800`) {
			return "no low surrogate in string"
		}
	}
	return ""
}

func statusOf(k llm.ErrorKind) int {
	switch k {
	case llm.Auth:
		return 401
	case llm.RateLimit:
		return 429
	case llm.Overloaded:
		return 529
	case llm.Server, llm.Broken:
		return 500
	case llm.Overflow:
		return 413
	}
	return 400
}

func send(w http.ResponseWriter, r *http.Request, f format, a *Answer, frames []string) {
	w.WriteHeader(200)
	flush := w.(http.Flusher).Flush
	for i, frame := range frames {
		if a.Break != Whole && a.Break != Late && i >= len(frames)/2 {
			switch a.Break {
			case Drop:
				io.WriteString(w, frame[:len(frame)/2])
				flush()
				panic(http.ErrAbortHandler)
			case Garble:
				io.WriteString(w, "data: {\"type\":\xff\xfe oops\n\n")
			case Fail:
				data := bytes.TrimSpace(f.fail(529, llm.Overloaded, "overloaded"))
				fmt.Fprintf(w, "event: error\ndata: %s\n\n", data)
			case Hang:
				flush()
				<-r.Context().Done()
			}
			return
		}
		if _, err := io.WriteString(w, frame); err != nil {
			return
		}
		flush()
	}
	if a.Break == Late {
		panic(http.ErrAbortHandler)
	}
}

// sse formats one server-sent event. If name is "", it has no event field.
func sse(name string, data any) string {
	var b bytes.Buffer
	if name != "" {
		fmt.Fprintf(&b, "event: %s\n", name)
	}
	b.WriteString("data: ")
	enc := json.NewEncoder(&b) // it ends the line
	enc.SetEscapeHTML(false)
	if err := enc.Encode(data); err != nil {
		panic(err)
	}
	b.WriteByte('\n')
	return b.String()
}

// signature returns the signature of thinking and records it as valid.
func (s *Server) signature(thinking string) string {
	sig := sign(thinking)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signed[sig+"\x00"+thinking] = true
	return sig
}

// Signed makes the server accept a signature that it did not create, for a conversation that began
// elsewhere.
func (s *Server) Signed(signature, thinking string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signed[signature+"\x00"+thinking] = true
}

func (s *Server) signedBy(sig, thinking string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signed[sig+"\x00"+thinking]
}

type object = map[string]any
