package wire

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/knack-agent/knack/run/llm"
)

var ep = &llm.Endpoint{Info: llm.Info{ID: "p/m"}, Key: "sk-secret"}

func TestEvents(t *testing.T) {
	for in, want := range map[string][]string{
		"":                                    nil,
		"data: a\n\n":                         {":a"},
		"data: a\ndata: b\n\n":                {":a\nb"},
		"event: x\r\ndata:a\r\n\r\ndata: b\n": {"x:a", ":b"},
		": comment\nid: 1\nretry: 2\n\nevent: only\n\ndata\n\n": {":"},
		"\ufeffdata: a\n\n\n\n":                                 {":a"},
		"data: cut":                                             {":cut"},
		"event: x\n\ndata: a\n\n":                               {":a"},
		"nonsense\ndata:  two\n\n":                              {": two"},
	} {
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
			var got []string
			for ev, err := range Events(r) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, ev.Name+":"+string(ev.Data))
			}
			if !slices.Equal(got, want) {
				t.Errorf("%q: got %q, want %q", in, got, want)
			}
		}
	}
}

// FuzzEvents: however the bytes arrive, the events are the same, and never contain more data than the input.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("event: x\ndata: {\"a\":1}\n\ndata: [DONE]\n\n"))
	f.Add([]byte("data: a\r\ndata: b\r\n\r\n:c\n\ndata"))
	f.Fuzz(func(t *testing.T, in []byte) {
		read := func(r io.Reader) (out []string, n int) {
			for ev, err := range Events(r) {
				if err != nil { // of a text that is no answer
					return append(out, err.Error()), n
				}
				out = append(out, ev.Name+"\x00"+string(ev.Data))
				n += len(ev.Data)
			}
			return out, n
		}
		a, n := read(strings.NewReader(string(in)))
		b, _ := read(iotest.OneByteReader(strings.NewReader(string(in))))
		if !slices.Equal(a, b) || n > len(in) {
			t.Errorf("%q, %q", a, b)
		}
	})
}

func TestStatusError(t *testing.T) {
	for _, c := range []struct {
		status int
		header string
		body   string
		kind   llm.ErrorKind
		after  time.Duration
		words  string
	}{
		{400, "", `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 > 8"}}`,
			llm.Overflow, 0, "prompt is too long"},
		{400, "", `{"error":{"message":"This model's maximum context length is 8 tokens","type":"invalid_request_error",` +
			`"code":"context_length_exceeded"}}`, llm.Overflow, 0, "maximum"},
		{400, "", `{"error":{"code":400,"message":"the request exceeds the available context ` +
			`size","type":"exceed_context_size_error"}}`, llm.Overflow, 0, "exceeds"},
		{400, "", `{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT",` +
			`"details":[{"reason":"API_KEY_INVALID"}]}}`, llm.Auth, 0, "API key"},
		{429, "", `[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"RetryInfo",` +
			`"retryDelay":"32.5s"}]}}]`, llm.RateLimit, 32500 * time.Millisecond, "quota"},
		{429, "Retry-After: 7",
			`{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`,
			llm.Auth, 7 * time.Second, "quota"},
		{429, "Retry-After-Ms: 250", `{}`, llm.RateLimit, 250 * time.Millisecond, "HTTP 429"},
		{529, "", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, llm.Overloaded, 0,
			"Overloaded"},
		{502, "", "<html>bad gateway</html>", llm.Server, 0, "HTTP 502 Bad Gateway"},
		{404, "", `{"error":"model 'x' not found"}`, llm.Invalid, 0, "model 'x' not found"},
		{404, "", `404 page not found`, llm.Invalid, 0, "404 page not found"},
		{401, "", `{"error":{"message":"Incorrect API key provided: sk-secret."}}`, llm.Auth, 0, "provided: [key]"},
		{413, "", ``, llm.Overflow, 0, "HTTP 413"},
		{400, "", `{"type":"error","error":{"type":"api_error","message":"no such field"}}`, llm.Invalid, 0, "no such field"},
		{401, "", `{"type":"error","error":{"type":"api_error","message":"bad key"}}`, llm.Auth, 0, "bad key"},
		{403, "", `{"error":{"message":"blocked","type":"server_error"}}`, llm.Auth, 0, "blocked"},
		{404, "", `{"error":{"type":"api_error","message":"model: x"}}`, llm.Invalid, 0, "model: x"},
		{413, "", `{"error":{"type":"api_error","message":"too much"}}`, llm.Overflow, 0, "too much"},
		{422, "", `{"error":{"code":422,"message":"odd","status":"INTERNAL"}}`, llm.Invalid, 0, "odd"},
		{400, "", `{"error":{"type":"api_error","message":"prompt is too long: 9 > 8"}}`, llm.Overflow, 0, "too long"},
		{408, "", `{"error":{"type":"invalid_request_error","message":"slow"}}`, llm.Server, 0, "slow"},
		{409, "", `{"error":{"type":"api_error","message":"busy"}}`, llm.Server, 0, "busy"},
		{425, "", `{"error":{"message":"early"}}`, llm.Server, 0, "early"},
		{418, "", `{"error":{"message":"teapot"}}`, llm.Invalid, 0, "teapot"},
	} {
		h := http.Header{}
		if k, v, ok := strings.Cut(c.header, ": "); ok {
			h.Set(k, v)
		}
		e := StatusError(ep, c.status, h, []byte(c.body))
		if e.Kind != c.kind || e.RetryAfter != c.after || e.Status != c.status || !strings.Contains(e.Message, c.words) ||
			strings.Contains(e.Message, ep.Key) {
			t.Errorf("%s: got %s %d %v %q", c.body, e.Kind, e.Status, e.RetryAfter, e.Message)
		}
	}
}

// TestRedirect: a key is not sent to another host.
func TestRedirect(t *testing.T) {
	asked := false
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = true }))
	defer thief.Close()
	s := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	var got error
	for _, err := range Post(t.Context(), ep, s.URL, http.Header{"X-Api-Key": {ep.Key}}, &Body{Head: struct{}{}}) {
		got = err
	}
	var e *llm.Error
	if asked || !errors.As(got, &e) || e.Temporary() {
		t.Errorf("asked %t, %v", asked, got)
	}
}

// TestMissingServer: a missing server is a retryable error without the key.
func TestMissingServer(t *testing.T) {
	s := httptest.NewServer(nil)
	s.Close()
	for _, err := range Post(t.Context(), ep, s.URL+"/?k="+ep.Key, nil, &Body{Head: struct{}{}}) {
		var e *llm.Error
		if !errors.As(err, &e) || !e.Temporary() || strings.Contains(e.Message, ep.Key) {
			t.Errorf("got %v", err)
		}
	}
}

// TestUnreachable: one sentence explains the error, and temporary errors are retryable.
func TestUnreachable(t *testing.T) {
	dial := func(err error) error {
		addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 11434}
		return &url.Error{Op: "Post", URL: "http://box", Err: &net.OpError{Op: "dial", Net: "tcp", Addr: addr, Err: err}}
	}
	for _, c := range []struct {
		err  error
		kind llm.ErrorKind
		want string
	}{
		{dial(&net.DNSError{Name: "box", Err: "no such host", IsNotFound: true}), llm.Invalid,
			"there is no host box: check the address, the network and HTTPS_PROXY"},
		{dial(&net.DNSError{Name: "box", Err: "server misbehaving"}), llm.Broken,
			"the address of box cannot be looked up: is there a network?"},
		{dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), llm.Broken,
			"no server answers at 127.0.0.1:11434: is it running?"},
		{dial(os.NewSyscallError("connect", syscall.ENETUNREACH)), llm.Broken,
			"the provider cannot be reached: is there a network?"},
		{&net.OpError{Op: "proxyconnect", Net: "tcp", Err: dial(os.NewSyscallError("connect", syscall.ECONNREFUSED))},
			llm.Invalid,
			"no server answers at the proxy 127.0.0.1:11434, which HTTPS_PROXY or the setting proxy names"},
		{&url.Error{Op: "Post", URL: "http://box", Err: errors.New("Proxy Authentication Required")}, llm.Invalid,
			"the proxy asks for a name and a password: HTTPS_PROXY=http://NAME:PASSWORD@HOST:PORT"},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, llm.Invalid,
			"the certificate of the server is signed by nobody this machine trusts: SSL_CERT_FILE or " +
				"NODE_EXTRA_CA_CERTS may name a file with the certificate of your organisation"},
		{&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired, Detail: "today"}},
			llm.Invalid, "tls: failed to verify certificate: x509: certificate has expired or is not yet valid: today: " +
				"is the clock of this machine right?"},
		{&tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"a"}},
			Host: "b"}}, llm.Invalid, "tls: failed to verify certificate: x509: certificate is valid for a, not b: is the " +
			"address right, or does the network want a login first?"},
		{dial(os.ErrDeadlineExceeded), llm.Broken,
			"nothing answers from 127.0.0.1:11434: is there a network, or does it want a proxy (HTTPS_PROXY)?"},
		{fmt.Errorf("dial: %w", syscall.ECONNREFUSED), llm.Broken, "no server answers at the address: is it running?"},
		{dial(os.NewSyscallError("read", syscall.ECONNRESET)), llm.Broken, "the connection was lost"},
		{io.ErrUnexpectedEOF, llm.Broken, "the connection was lost"},
		{errors.New("odd"), llm.Broken, "odd"},
	} {
		if kind, text := unreachable(c.err); kind != c.kind || text != c.want {
			t.Errorf("%v: %s, %s", c.err, kind, text)
		}
	}
}

// TestSchemeMismatch: https to a server without TLS always fails with the same error.
func TestSchemeMismatch(t *testing.T) {
	s := httptest.NewServer(nil)
	defer s.Close()
	for _, err := range Post(t.Context(), ep, strings.Replace(s.URL, "http:", "https:", 1), nil, &Body{Head: struct{}{}}) {
		var e *llm.Error
		if !errors.As(err, &e) || e.Temporary() || !strings.HasSuffix(e.Message, "does its address begin with http?") {
			t.Errorf("got %v", err)
		}
	}
}

// TestHeaderValue: a header that HTTP does not allow is not sent; the key is not shown.
func TestHeaderValue(t *testing.T) {
	two := *ep
	two.Key = "first\nsecond"
	for _, c := range []struct {
		name, value string
		kind        llm.ErrorKind
		want        string
	}{
		{"X-Api-Key", two.Key, llm.Auth, "the key contains a line break or another control character"},
		{"Authorization", "Bearer " + two.Key, llm.Auth, "the key contains a line break or another control character"},
		{"X-Team", "a\r\nb", llm.Invalid, "the header X-Team contains a line break or another control character"},
	} {
		for _, err := range Post(t.Context(), &two, "http://127.0.0.1:1", http.Header{c.name: {c.value}},
			&Body{Head: struct{}{}}) {
			var e *llm.Error
			if !errors.As(err, &e) || e.Kind != c.kind || e.Message != two.Info.ID+": "+c.want {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

// TestNoURL: an invalid base URL is an error that is not retried.
func TestNoURL(t *testing.T) {
	for _, url := range []string{"x/chat", "ftp://h/x", "http:///x", "%"} {
		for _, err := range Post(t.Context(), ep, url, nil, &Body{Head: struct{}{}}) {
			var e *llm.Error
			if !errors.As(err, &e) || e.Kind != llm.Invalid {
				t.Errorf("%s: %v", url, err)
			}
		}
	}
}

// TestAnswerIsBounded: an endless answer, compressed or not, ends with an error that is not retried, in limited
// memory.
func TestAnswerIsBounded(t *testing.T) {
	for _, packed := range []bool{false, true} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var to io.Writer = w
			if packed {
				w.Header().Set("Content-Encoding", "gzip")
				z := gzip.NewWriter(w)
				defer z.Close()
				to = z
			}
			chunk := []byte("data: " + strings.Repeat("x", 64<<10) + "\n\n")
			for r.Context().Err() == nil {
				if _, err := to.Write(chunk); err != nil {
					return
				}
			}
		}))
		small := *ep
		small.Info.MaxOutput = 1000
		n := 0
		var last error
		for ev, err := range Post(t.Context(), &small, s.URL, nil, &Body{Head: struct{}{}}) {
			n += len(ev.Data)
			last = err
		}
		s.Close()
		var e *llm.Error
		if !errors.As(last, &e) || e.Temporary() || n > maxAnswer+bytesPerToken*1000 {
			t.Errorf("packed %v: %d bytes, %v", packed, n, last)
		}
	}
}

// A textDecoder takes the data of events as text.
type textDecoder struct{}

func (textDecoder) Event(data []byte, emit func(llm.Event)) error {
	emit(llm.Event{Text: string(data)})
	return nil
}

func (textDecoder) End(func(llm.Event)) {}

// TestTextIsBounded: of an endless answer only as much text is kept as a model can write, whether it comes in large or
// small events, and an event that does not end is not requested again. Found by attack: one endless answer took 877 MB,
// and an event without end 678 MB and three more requests.
func TestTextIsBounded(t *testing.T) {
	small := *ep
	small.Info.MaxOutput = 1000
	for _, chunk := range []string{"data: " + strings.Repeat("x", 64<<10) + "\n\n", "data: " + strings.Repeat("x", 500) +
		"\n\n", strings.Repeat("x", 64<<10)} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for _, err := io.WriteString(w, "data: "); err == nil && r.Context().Err() == nil; {
				_, err = io.WriteString(w, chunk)
			}
		}))
		n := 0
		var last error
		for ev, err := range Stream(t.Context(), &small, s.URL, nil, &Body{Head: struct{}{}}, textDecoder{}) {
			n, last = n+len(ev.Text), err
		}
		s.Close()
		var e *llm.Error
		if !errors.As(last, &e) || e.Temporary() || n > maxText+textPerToken*1000+64<<10 {
			t.Errorf("chunks of %d: %d bytes of text, %v", len(chunk), n, last)
		}
	}
}

// TestAnswersTogether: answers that arrive at the same time share a limit, and give it back when they end.
func TestAnswersTogether(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "data: "+strings.Repeat("x", 1000)+"\n\n")
	}))
	defer s.Close()
	shared := *ep
	shared.Limit = llm.NewLimit(2500)
	var receive func(depth int) error
	receive = func(depth int) error { // each begins before the one before it has ended
		for _, err := range Post(t.Context(), &shared, s.URL, nil, &Body{Head: struct{}{}}) {
			if err != nil {
				return err
			}
			if depth > 1 {
				if err := receive(depth - 1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for range 3 {
		if err := receive(2); err != nil {
			t.Errorf("two: %v", err)
		}
		var e *llm.Error
		if err := receive(3); !errors.As(err, &e) || e.Temporary() || !errors.Is(err, errTooMany) {
			t.Errorf("three: %v", err)
		}
	}
}

// TestAnswerEnds: an answer that never ends, but never pauses either, is cut off, and not requested again.
func TestAnswerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := roundTripper(func(r *http.Request) (*http.Response, error) {
			out, in := io.Pipe()
			go func() {
				for r.Context().Err() == nil {
					io.WriteString(in, "data: {}\n\n")
					time.Sleep(time.Second)
				}
				in.CloseWithError(r.Context().Err())
			}()
			return &http.Response{StatusCode: 200, Body: out, Header: http.Header{}}, nil
		})
		e := *ep
		e.Client = &http.Client{Transport: server}
		var last error
		start := time.Now()
		for _, err := range Post(t.Context(), &e, "http://host", nil, &Body{Head: struct{}{}}) {
			if last = err; time.Since(start) > 2*maxTime {
				t.Fatal("it goes on")
			}
		}
		var got *llm.Error
		if !errors.As(last, &got) || got.Temporary() || !errors.Is(last, errTooSlow) {
			t.Errorf("got %v", last)
		}
	})
}

// TestPings: pings alone do not keep a stream alive forever, and the error says what the server sent.
func TestPings(t *testing.T) {
	for sends, want := range map[string]string{
		"event: ping\ndata: {}\n\n": "p/m sent nothing but pings for 3m0s",
		"":                          "p/m sent nothing for 1m0s",
	} {
		synctest.Test(t, func(t *testing.T) {
			server := roundTripper(func(r *http.Request) (*http.Response, error) {
				out, in := io.Pipe()
				go func() {
					for r.Context().Err() == nil {
						io.WriteString(in, sends)
						time.Sleep(time.Second)
					}
					in.CloseWithError(r.Context().Err())
				}()
				return &http.Response{StatusCode: 200, Body: out, Header: http.Header{}}, nil
			})
			e := *ep
			e.Idle, e.Client = time.Minute, &http.Client{Transport: server}
			var last error
			for _, err := range Post(t.Context(), &e, "http://host", nil, &Body{Head: struct{}{}}) {
				last = err
			}
			var got *llm.Error
			if !errors.As(last, &got) || !got.Temporary() || got.Message != want {
				t.Errorf("got %v, want %s", last, want)
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestOnSent: the callback is called when the request was written, before the server answers.
func TestOnSent(t *testing.T) {
	sent := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		select {
		case <-sent:
			io.WriteString(w, "data: a\n\n")
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e := *ep
	got := ""
	for ev, err := range Post(llm.OnSent(ctx, func() { close(sent) }), &e, server.URL, nil,
		&Body{Head: struct{}{}, List: "messages"}) {
		if err != nil {
			t.Fatal(err)
		}
		got += string(ev.Data)
	}
	if got != "a" {
		t.Errorf("got %q", got)
	}
}

// TestEncodedOnce: tools, which are equal in most requests, are encoded again only when they change.
func TestEncodedOnce(t *testing.T) {
	type tools struct {
		Tools []llm.ToolSpec `json:"tools"`
	}
	head := func(name string) tools {
		return tools{[]llm.ToolSpec{{Name: name, Schema: []byte(`{"type":"object"}`)}}}
	}
	var memo llm.Memo
	send := func(name string) (pieces [][]byte, text string) {
		t.Helper()
		body := &Body{Head: head(name), List: "messages", First: []any{"a"}, Tail: head(name), Memo: &memo, Owner: "x"}
		pieces, err := body.pieces()
		if err != nil {
			t.Fatal(err)
		}
		return pieces, string(bytes.Join(pieces, nil))
	}
	first, text := send("read")
	second, same := send("read")
	if text != same || len(first) != len(second) {
		t.Fatalf("first\n%s\nsecond\n%s", text, same)
	}
	for _, i := range []int{0, 2, len(first) - 2} { // head, first items, tail
		if &first[i][0] != &second[i][0] {
			t.Errorf("%s was encoded again", first[i])
		}
	}
	want := strings.ReplaceAll(text, "read", "write")
	if _, changed := send("write"); changed != want || changed == text {
		t.Errorf("after a change\n%s\nwant\n%s", changed, want)
	}
}
