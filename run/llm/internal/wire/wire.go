// Package wire contains what the adapters of all vendors share: the HTTP request, errors, and
// server-sent events.
package wire

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/knack-agent/knack/internal/leaf/authority"
	"github.com/knack-agent/knack/run/llm"
)

const (
	maxErrorBody = 64 << 10
	defaultIdle  = 10 * time.Minute

	// The size limit of an answer is maxAnswer bytes (uncompressed), plus bytesPerToken for each token of
	// the model's output limit. Real streams have about 200 bytes per token.
	maxAnswer     = 16 << 20
	bytesPerToken = 512
	// Most of these bytes are what each event says around its text. What is kept is far less: the text of a token has
	// four bytes, and what an event contains beyond smallEvent is text or a result of a tool. The limits of both are
	// for each token, in addition to maxText and maxLarge.
	smallEvent   = 512
	maxText      = 2 << 20
	maxLarge     = 12 << 20
	textPerToken = 32
	// maxTime is how long an answer may take, from the request to its end.
	maxTime = time.Hour
)

// Errors for answers that were cut off because of a limit.
var (
	errTooLarge = errors.New("the answer is larger than the model's output limit allows: it was cut off")
	errTooMany  = errors.New("the answers that arrive at the same time are too large together: this one was cut off")
	errTooSlow  = fmt.Errorf("the answer took longer than %v: it was cut off", maxTime)
)

// Post sends body and yields the server-sent events of the answer. An error comes last: ctx.Err() if
// ctx ended, otherwise an [*llm.Error]. If the events end without an error, the caller decides
// whether the answer is complete.
func Post(ctx context.Context, e *llm.Endpoint, url string, header http.Header, body *Body) iter.Seq2[SSE, error] {
	return func(yield func(SSE, error) bool) {
		fail := func(err error) { yield(SSE{}, err) }

		pieces, err := body.pieces()
		if err != nil {
			fail(&llm.Error{Kind: llm.Invalid, Message: "the request cannot be written as JSON: " + err.Error(), Err: err})
			return
		}

		parent := ctx
		ctx, cancelCause := context.WithCancelCause(ctx)
		cancel := func() { cancelCause(nil) }
		defer cancel()
		slow := time.AfterFunc(maxTime, func() { cancelCause(errTooSlow) })
		defer slow.Stop()
		idle := e.Idle
		if idle == 0 {
			idle = defaultIdle
		}
		onBytes, onEvent := func() {}, func() {}
		if idle > 0 {
			t := time.AfterFunc(idle, func() { cancelCause(fmt.Errorf("sent nothing for %v", idle)) })
			defer t.Stop()
			onBytes = func() { t.Reset(idle) }
			// If a server sends nothing but pings, the stream ends after three times as long.
			silent := time.AfterFunc(3*idle, func() { cancelCause(fmt.Errorf("sent nothing but pings for %v", 3*idle)) })
			defer silent.Stop()
			onEvent = func() { silent.Reset(3 * idle) }
		}
		// broken returns the error for a failed connection.
		broken := func(err error) error {
			switch {
			case parent.Err() != nil:
				return parent.Err()
			case errors.Is(context.Cause(ctx), errTooSlow):
				err = errTooSlow
				fallthrough
			case errors.Is(err, errTooLarge), errors.Is(err, errTooMany), errors.Is(err, errTooLong):
				return &llm.Error{Kind: llm.Invalid, Message: e.Info.ID + ": " + err.Error(), Err: err}
			case ctx.Err() != nil:
				return &llm.Error{Kind: llm.Broken, Message: fmt.Sprintf("%s %v", e.Info.ID, context.Cause(ctx)), Err: err}
			}
			var other *notEvents
			if errors.As(err, &other) {
				return other.err(e)
			}
			kind, text := unreachable(err)
			return &llm.Error{Kind: kind, Message: redact(e.Info.ID+": "+text, e.Key), Err: err}
		}

		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, &reader{pieces: pieces})
		if err == nil && (req.URL.Host == "" || req.URL.Scheme != "http" && req.URL.Scheme != "https") {
			err = fmt.Errorf("%s: the base URL %q is not an http or https URL", e.Info.ID, e.BaseURL)
		}
		if err != nil {
			fail(&llm.Error{Kind: llm.Invalid, Message: redact(err.Error(), e.Key), Err: err})
			return
		}
		for _, p := range pieces {
			req.ContentLength += int64(len(p))
		}
		// GetBody allows net/http to repeat the request if the server has closed the connection.
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(&reader{pieces: pieces}), nil }
		for _, h := range []http.Header{header, e.Header} {
			for k, v := range h {
				req.Header[http.CanonicalHeaderKey(k)] = v
			}
		}
		if err := checkHeader(e, req.Header); err != nil {
			fail(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "text/event-stream")
		if e.Cloud != nil {
			if err := authorize(ctx, e, req, pieces); err != nil {
				fail(err)
				return
			}
		}
		resp, err := client(e).Do(req)
		if err != nil {
			fail(broken(err))
			return
		}
		defer resp.Body.Close()
		if resp.StatusCode < 200 || resp.StatusCode > 299 {
			data, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
			refused := StatusError(e, resp.StatusCode, resp.Header, data)
			if refused.Kind == llm.Invalid {
				refused.Media = body.refused(pieces, string(data))
			}
			fail(refused)
			return
		}
		answer := &watchedReader{r: resp.Body, onBytes: onBytes, all: e.Limit,
			left: maxAnswer + bytesPerToken*int64(max(0, e.Info.MaxOutput))}
		defer answer.giveBack()
		large := maxLarge + textPerToken*max(0, e.Info.MaxOutput)
		events := Events
		if strings.HasPrefix(resp.Header.Get("Content-Type"), frameType) {
			events = Frames
		}
		for ev, err := range events(answer) {
			if large -= max(0, len(ev.Data)-smallEvent); err == nil && large < 0 {
				err = errTooLarge
			}
			if err != nil {
				fail(broken(err))
				return
			}
			if ev.Name != "ping" {
				onEvent()
			}
			if !yield(ev, nil) {
				return
			}
		}
		if parent.Err() != nil {
			fail(parent.Err())
		}
	}
}

// authorize lets the endpoint's cloud add what shows who sends the request.
func authorize(ctx context.Context, e *llm.Endpoint, req *http.Request, pieces [][]byte) error {
	h := sha256.New()
	for _, p := range pieces {
		h.Write(p)
	}
	if e.Cloud.Unstreamed {
		req.Header.Set("Accept", "application/json")
	}
	err := e.Cloud.Authorize(ctx, req, [sha256.Size]byte(h.Sum(nil)))
	if err == nil || ctx.Err() != nil {
		return cmp.Or(ctx.Err(), err)
	}
	var known *llm.Error
	if errors.As(err, &known) {
		return err
	}
	return &llm.Error{Kind: llm.Auth, Message: redact(e.Info.ID+": "+err.Error(), e.Key), Err: err}
}

// checkHeader returns an error if HTTP cannot send a header value, such as a key with a line break.
func checkHeader(e *llm.Endpoint, header http.Header) error {
	for name, values := range header {
		for _, v := range values {
			if !strings.ContainsFunc(v, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
				continue
			}
			out := &llm.Error{Kind: llm.Invalid, Message: fmt.Sprintf("%s: the header %s contains a line break or another "+
				"control character", e.Info.ID, name)}
			if e.Key != "" && strings.Contains(v, e.Key) {
				out.Kind = llm.Auth
				out.Message = e.Info.ID + ": the key contains a line break or another control character"
			}
			return out
		}
	}
	return nil
}

const proxyPassword = "the proxy asks for a name and a password: HTTPS_PROXY=http://NAME:PASSWORD@HOST:PORT"

// unreachable explains why the provider could not be reached. The kind is Broken if another attempt may
// succeed, and Invalid if not.
func unreachable(err error) (llm.ErrorKind, string) {
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var name *net.DNSError
	var late net.Error
	address, proxy := dialed(err)
	switch {
	case proxy && errors.Is(err, syscall.ECONNREFUSED):
		return llm.Invalid, fmt.Sprintf("no server answers at %s, which HTTPS_PROXY or the setting proxy names", address)
	case strings.HasSuffix(err.Error(), http.StatusText(http.StatusProxyAuthRequired)):
		return llm.Invalid, proxyPassword
	case authority.Unknown(err):
		return llm.Invalid, "the certificate of the server is signed by nobody this machine trusts: " +
			authority.Advice(err)
	case errors.As(err, &certificate):
		return llm.Invalid, strings.TrimSuffix(certificate.Error()+": "+authority.Advice(err), ": ")
	case errors.Is(err, errRedirect):
		return llm.Invalid, err.Error()
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return llm.Invalid, "the server does not speak https: does its address begin with http?"
	case errors.As(err, &name) && name.IsNotFound:
		return llm.Invalid, fmt.Sprintf("there is no host %s: check the address, the network and HTTPS_PROXY", name.Name)
	case errors.As(err, &name):
		return llm.Broken, fmt.Sprintf("the address of %s cannot be looked up: is there a network?", name.Name)
	case errors.Is(err, syscall.ECONNREFUSED):
		// A retry helps if the server is just starting.
		return llm.Broken, fmt.Sprintf("no server answers at %s: is it running?", address)
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return llm.Broken, "the provider cannot be reached: is there a network?"
	case errors.As(err, &late) && late.Timeout() && address != "the address":
		return llm.Broken, fmt.Sprintf("nothing answers from %s: is there a network, or does it want a proxy "+
			"(HTTPS_PROXY)?", address)
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrUnexpectedEOF):
		return llm.Broken, "the connection was lost"
	}
	return llm.Broken, err.Error()
}

// dialed returns the address to which the connection failed, and whether it is that of a proxy: then the outer
// net.OpError has only the operation, and the one that it wraps has the address.
func dialed(err error) (address string, proxy bool) {
	for op := (*net.OpError)(nil); errors.As(err, &op); err = op.Err {
		proxy = proxy || op.Op == "proxyconnect"
		switch {
		case op.Addr != nil && proxy:
			return "the proxy " + op.Addr.String(), true
		case op.Addr != nil:
			return op.Addr.String(), false
		}
	}
	return "the address", proxy
}

// A Decoder builds an answer from the events of a stream.
type Decoder interface {
	// Event decodes one event of the stream and passes the resulting events to emit. The last of an
	// answer has Done set.
	Event(data []byte, emit func(llm.Event)) error
	// End is called when the stream ends or the connection breaks. It passes an event with Done to emit, unless
	// Event has already done so or a part of the answer is missing.
	End(emit func(llm.Event))
}

// Stream runs [Post] and decodes its events with d. Adapters return its result, which can be
// iterated once.
func Stream(ctx context.Context, e *llm.Endpoint, url string, header http.Header, body *Body,
	d Decoder) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		done := false // the answer is complete, or the caller wants no more events
		text := maxText + textPerToken*max(0, e.Info.MaxOutput)
		emit := func(ev llm.Event) {
			text -= len(ev.Text) + len(ev.Thinking)
			if !done {
				done = !yield(ev, nil) || ev.Done != nil
			}
		}
		anything := false
		for ev, err := range Post(ctx, e, url, header, body) {
			anything = true
			if err == nil && ev.Name == "error" {
				err = StreamError(e, ev.Data)
			} else if err == nil {
				if err = d.Event(ev.Data, emit); err == nil && text < 0 {
					err = &llm.Error{Kind: llm.Invalid, Message: e.Info.ID + ": " + errTooLarge.Error(), Err: errTooLarge}
				}
			} else if isBroken(err) {
				d.End(emit) // the connection may break after the end of the answer
			}
			if err != nil && !done {
				yield(llm.Event{}, err)
				return
			}
			if done {
				return
			}
		}
		if ctx.Err() != nil {
			return
		}
		d.End(emit)
		switch {
		case done:
		case anything:
			yield(llm.Event{}, Truncated(e))
		default:
			yield(llm.Event{}, &llm.Error{Kind: llm.Broken, Message: e.Info.ID + ": the server sent an empty answer"})
		}
	}
}

func isBroken(err error) bool {
	var e *llm.Error
	return errors.As(err, &e) && e.Kind == llm.Broken
}

// A watchedReader calls onBytes when bytes arrive, and fails with errTooLarge or errTooMany when there are too many.
type watchedReader struct {
	r       io.Reader
	onBytes func()
	left    int64      // the number of bytes that may still arrive
	all     *llm.Limit // may be nil
	taken   int64      // from all
}

func (w *watchedReader) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if n > 0 {
		w.onBytes()
	}
	w.taken += int64(n)
	kept := w.all.Take(int64(n))
	if w.left -= int64(n); w.left < 0 {
		return n, errTooLarge
	}
	if !kept {
		return n, errTooMany
	}
	return n, err
}

// giveBack ends the count of this answer's bytes.
func (w *watchedReader) giveBack() { w.all.Take(-w.taken) }

var errRedirect = errors.New("redirected to another host, where the key is not sent: is the base URL right, or does " +
	"the network want a login first?")

// client returns a copy of e's client that refuses redirects to another host, which would receive the
// key: net/http removes Authorization on such a redirect, but not the vendors' own key headers.
func client(e *llm.Endpoint) *http.Client {
	c := http.Client{}
	if e.Client != nil {
		c = *e.Client
	}
	follow := c.CheckRedirect
	c.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
			return errRedirect
		}
		if follow != nil {
			return follow(req, via)
		}
		if len(via) >= 10 {
			return errors.New("stopped after 10 redirects")
		}
		return nil
	}
	return &c
}

// redact replaces the key in a text. Keys of fewer than 4 characters are not secret, and
// replacing them would garble the text.
func redact(s, key string) string {
	if len(key) < 4 {
		return s
	}
	return strings.ReplaceAll(s, key, "[key]")
}

// InvalidData returns the error for data in a stream that cannot be understood.
func InvalidData(e *llm.Endpoint, data []byte) *llm.Error {
	if len(data) > 80 {
		data = data[:80]
	}
	return &llm.Error{Kind: llm.Broken, Message: redact(fmt.Sprintf("%s: invalid event stream: %q", e.Info.ID, data),
		e.Key)}
}

// Truncated returns the error for a stream that ended before the answer was complete.
func Truncated(e *llm.Endpoint) *llm.Error {
	return &llm.Error{Kind: llm.Broken, Message: e.Info.ID + ": the stream ended before the answer did"}
}

func retryAfter(h http.Header) (time.Duration, bool) {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond)), true
	}
	v := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(v, 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second)), true
	}
	if d, err := time.ParseDuration(v); err == nil && d > 0 && d < 1e6*time.Second { // not of the standard: "7s"
		return d, true
	}
	if at, err := http.ParseTime(v); err == nil {
		if d := time.Until(at); d > 0 {
			return d, true
		}
	}
	return 0, false
}
