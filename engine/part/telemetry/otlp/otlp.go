// Package otlp sends spans, metrics and log records to a collector, in the JSON mapping of the OpenTelemetry protocol
// (OTLP 1.x over HTTP), or appends them to a file, a request a line.
//
// OpenTelemetry's own exporters send protobuf, and would make the program 7 to 9 MB larger, and its SDK 1.5 MB. That
// both send the same is tested in bench/otlp.
package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
)

// A Target is where one signal goes. The zero Target discards it.
type Target struct {
	URL     string // http, https, or file with an absolute path
	Headers map[string]string
	Timeout time.Duration // of one request; 0: 10 s
	Gzip    bool          // compresses what is not small
}

// An Exporter sends signals. Its methods must not be called concurrently.
type Exporter struct {
	Traces, Metrics, Logs Target
	Resource              []attribute.KeyValue
	Scope, Version        string
	Client                *http.Client // it must not follow redirects, which would give the headers to another host
	// Stopping, once closed, makes a request that failed not be repeated.
	Stopping <-chan struct{}

	zip *gzip.Writer // its tables are large
}

// A Record is a log record.
type Record struct {
	Time     time.Time
	Name     string // of the event
	Severity int    // 9: info, 13: warning
	Attrs    []attribute.KeyValue
	Span     trace.SpanContext // in which it happened; it may be invalid
}

// Spans sends spans. rejected is how many the collector did not take.
func (e *Exporter) Spans(ctx context.Context, spans []*Span) (rejected int, err error) {
	list := make([]span, len(spans))
	for i, s := range spans {
		list[i] = spanOf(s)
	}
	return e.send(ctx, e.Traces, len(spans), object{"resourceSpans": []object{{"resource": e.resource(),
		"scopeSpans": []object{{"scope": e.scope(), "spans": list}}}}})
}

// Values sends metrics. rejected is how many data points the collector did not take.
func (e *Exporter) Values(ctx context.Context, metrics []Metric) (rejected int, err error) {
	list := make([]metric, len(metrics))
	for i, m := range metrics {
		list[i] = metricOf(m)
	}
	return e.send(ctx, e.Metrics, len(list), object{"resourceMetrics": []object{{"resource": e.resource(),
		"scopeMetrics": []object{{"scope": e.scope(), "metrics": list}}}}})
}

// Records sends log records. rejected is how many the collector did not take.
func (e *Exporter) Records(ctx context.Context, records []Record) (rejected int, err error) {
	list := make([]record, len(records))
	for i, r := range records {
		list[i] = recordOf(r)
	}
	return e.send(ctx, e.Logs, len(records), object{"resourceLogs": []object{{"resource": e.resource(),
		"scopeLogs": []object{{"scope": e.scope(), "logRecords": list}}}}})
}

func (e *Exporter) resource() object { return object{"attributes": attributes(e.Resource)} }
func (e *Exporter) scope() object    { return object{"name": e.Scope, "version": e.Version} }

// attempts is how often a request is sent that failed for a reason that may pass.
const attempts = 5

// maxAnswer is how much of an answer is read, in bytes.
const maxAnswer = 64 << 10

// send sends one request with n items, and repeats it where OTLP allows that.
func (e *Exporter) send(ctx context.Context, to Target, n int, body object) (rejected int, err error) {
	data, err := json.Marshal(body)
	if err != nil {
		return n, err
	}
	if path, ok := strings.CutPrefix(to.URL, "file://"); ok {
		if err := appendLine(path, data); err != nil {
			return n, err
		}
		return 0, nil
	}
	if to.URL == "" {
		return 0, nil
	}
	if to.Gzip = to.Gzip && len(data) >= minGzip; to.Gzip {
		data = e.compressed(data)
	}
	for i := range attempts {
		var wait time.Duration
		if rejected, wait, err = e.post(ctx, to, data); err == nil {
			return rejected, nil
		}
		if wait < 0 || i == attempts-1 {
			break
		}
		if wait == 0 {
			wait = 500 * time.Millisecond << i
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			continue
		case <-ctx.Done():
		case <-e.Stopping:
		}
		timer.Stop()
		break
	}
	return n, err
}

// minGzip is the size, in bytes, from which a body is compressed: for less, the work is more than the way.
const minGzip = 16 << 10

func (e *Exporter) compressed(data []byte) []byte {
	var b bytes.Buffer
	if e.zip == nil {
		e.zip, _ = gzip.NewWriterLevel(&b, gzip.BestSpeed) // the level is right
	}
	e.zip.Reset(&b)
	e.zip.Write(data)
	e.zip.Close() // it writes to memory
	return b.Bytes()
}

// post sends a request once. wait is how long the collector asks to wait before it is repeated; 0: it does not say,
// negative: it must not be repeated.
func (e *Exporter) post(ctx context.Context, to Target, data []byte) (rejected int, wait time.Duration, err error) {
	timeout := to.Timeout
	if timeout == 0 {
		timeout = 10 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL, bytes.NewReader(data))
	if err != nil {
		return 0, -1, err
	}
	for name, value := range to.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/json")
	if to.Gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	res, err := e.Client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	switch res.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return rejectedIn(answer), 0, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		if s, err := strconv.Atoi(res.Header.Get("Retry-After")); err == nil && s > 0 {
			wait = time.Duration(min(s, 60)) * time.Second
		}
		return 0, wait, errors.New("the collector answers " + res.Status)
	}
	if res.StatusCode/100 == 3 {
		return 0, -1, errors.New("the collector answers with another address, which is not followed")
	}
	return 0, -1, fmt.Errorf("the collector answers %s", res.Status)
}

// rejectedIn returns how many items an answer says were not taken.
func rejectedIn(answer []byte) int {
	var x struct {
		PartialSuccess struct{ RejectedSpans, RejectedDataPoints, RejectedLogRecords json.RawMessage }
	}
	if json.Unmarshal(answer, &x) != nil {
		return 0
	}
	sum := 0
	for _, text := range []json.RawMessage{x.PartialSuccess.RejectedSpans, x.PartialSuccess.RejectedDataPoints,
		x.PartialSuccess.RejectedLogRecords} { // numbers, or strings as protobuf writes 64 bits
		n, _ := strconv.Atoi(strings.Trim(string(text), `"`))
		sum += max(n, 0)
	}
	return sum
}

// appendLine appends a line to a file that only the user can read. A link or a device is not opened.
func appendLine(path string, line []byte) error {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}
