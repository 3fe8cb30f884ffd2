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

	"github.com/knack-agent/knack/run/llm/llmtest"
)

// A vendor imitates the servers of model vendors. The scripted server of llmtest provides the
// answers, in the format that the requested path implies. That server only accepts what
// Knack's own adapters send, but other programs use other parts of the formats. So the vendor
// passes it the smallest valid request of the format instead of the real one, for Knack too,
// so that the work is the same for all programs.
//
// A request that offers no tools, such as one for a title, is answered with a word and counted
// separately.
type vendor struct {
	URL string

	http *http.Server
	mu   sync.Mutex
	run  *exchange
}

// An exchange records the requests that a vendor received in one run of a program.
type exchange struct {
	answers *llmtest.Server
	main    []request
	side    int
	odd     []string // requests that were not understood
}

type request struct {
	at   time.Time // when the header had arrived
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
	go v.http.Serve(l) // runs until close
	return v, nil
}

func (v *vendor) close() { v.http.Close() }

// during serves answers to the requests that arrive while f runs.
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

// smallest returns the smallest valid request of the format that a path implies; its last user
// message is "go". body is "" if the path does not belong to a model API.
func smallest(path string) (to, body string) {
	switch {
	case strings.HasSuffix(path, "/messages"):
		return "/v1/messages",
			`{"model":"m","max_tokens":9,"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"go"}]}]}`
	case strings.HasSuffix(path, "/responses"):
		return "/v1/responses",
			`{"model":"m","stream":true,"store":false,"input":[{"type":"message","role":"user",` +
				`"content":[{"type":"input_text","text":"go"}]}]}`
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
		odd = r.Method + " " + r.URL.Path // how a server without this page answers
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

// why returns an error if an exchange did not go as expected: n requests, the last of which
// contains last.
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
