package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/llm/llmtest"
)

// A vendor imitates the vendors' servers. The scripted server of llmtest
// gives the answers, in the format that the path asks for. It is strict about
// what Knack's own adapters send; other programs use other corners of the
// formats, so it is shown the smallest request of the format in place of
// theirs, and of Knack's too, for the same work on all sides.
//
// A request that offers no tools, such as one for a title, is answered with a
// word and counted apart.
type vendor struct {
	URL string

	http *http.Server
	mu   sync.Mutex
	run  *exchange
}

// An exchange is what a vendor saw of one run of a program.
type exchange struct {
	answers *llmtest.Server
	main    []request
	side    int
	odd     []string // what was asked for and not understood
}

type request struct {
	at   time.Time // when its head had come
	path string
	body []byte // uncompressed
}

func newVendor() (*vendor, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	v := &vendor{URL: "http://" + l.Addr().String(), run: &exchange{}}
	v.http = &http.Server{Handler: v}
	go v.http.Serve(l) // until close
	return v, nil
}

func (v *vendor) close() { v.http.Close() }

// during gives the answers to what comes while f runs.
func (v *vendor) during(answers []llmtest.Answer, f func()) *exchange {
	e := &exchange{answers: llmtest.NewServer(answers...)}
	defer e.answers.Close()
	v.mu.Lock()
	v.run = e
	v.mu.Unlock()
	f()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.run = &exchange{}
	return e
}

// smallest is the smallest request of the format that a path asks for, in
// which the last user message is "go"; "" if the path is none of a model.
func smallest(path string) (to, body string) {
	switch {
	case strings.HasSuffix(path, "/messages"):
		return "/v1/messages",
			`{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"go"}]}]}`
	case strings.HasSuffix(path, "/responses"):
		return "/v1/responses",
			`{"model":"m","stream":true,"store":false,"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"go"}]}]}`
	case strings.HasSuffix(path, "/chat/completions"):
		return "/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"go"}]}`
	case strings.HasSuffix(path, ":streamGenerateContent"):
		return "/v1beta/models/m:streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"go"}]}]}`
	}
	return "", ""
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	odd := ""
	switch r.Header.Get("Content-Encoding") {
	case "", "identity":
	case "gzip":
		if z, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
			body, _ = io.ReadAll(z)
		}
	default:
		odd = "a request in " + r.Header.Get("Content-Encoding")
	}
	path, small := smallest(r.URL.Path)
	var asks struct {
		Tools []json.RawMessage `json:"tools"`
	}
	if odd == "" && path != "" {
		if err := json.Unmarshal(body, &asks); err != nil {
			odd = err.Error()
		}
	}
	v.mu.Lock()
	e := v.run
	switch {
	case odd != "":
	case e.answers == nil:
		odd = "a request after the run"
	case path == "":
		odd = r.Method + " " + r.URL.Path // how a server that has no such page answers
	case len(asks.Tools) == 0:
		e.side++
	default:
		e.main = append(e.main, request{at, r.URL.Path, body})
	}
	if odd != "" {
		e.odd = append(e.odd, odd)
	}
	v.mu.Unlock()
	if odd != "" {
		http.Error(w, `{"error":{"type":"not_found_error","message":"not here"}}`, http.StatusNotFound)
		return
	}
	answers := e.answers
	if len(asks.Tools) == 0 {
		answers = llmtest.NewServer(llmtest.Reply("ok"))
		defer answers.Close()
	}
	in, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), http.MethodPost, path,
		strings.NewReader(small))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	in.Header = http.Header{
		"Content-Type": {"application/json"}, "Anthropic-Version": {"2023-06-01"},
		"Authorization": {"Bearer " + llmtest.Key}, "X-Goog-Api-Key": {llmtest.Key},
	}
	answers.ServeHTTP(w, in)
}

// why is what went wrong in an exchange that should have had n requests.
func (e *exchange) why(n int, last string) error {
	refused := strings.Join(append(e.answers.Refused(), e.odd...), "; ")
	switch {
	case len(e.main) == 0:
		return fmt.Errorf("no request came (%s)", cmp.Or(refused, "nothing at all"))
	case len(e.main) != n:
		return fmt.Errorf("%d requests came, not %d (%s)", len(e.main), n, cmp.Or(refused, "none refused"))
	case !bytes.Contains(e.main[n-1].body, []byte(last)):
		return fmt.Errorf("the last request does not hold %q, so a tool did not do what it was called for", last)
	}
	return nil
}
