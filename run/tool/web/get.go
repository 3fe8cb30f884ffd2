package web

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/knack-agent/knack/internal/leaf/plain"
)

// A page is what a request led to.
type page struct {
	URL     string // of the last request
	Status  string // such as "200 OK"
	Code    int
	Type    string // media type, without parameters
	Title   string
	Text    string // as shown to the model, without the frame
	Fetched time.Time
	Hidden  int // characters that were removed
	// To is the URL on another host to which it redirects; "": it does not.
	To    string
	Notes []string
	Led   bool   // a redirect led to URL
	Proxy string // through which it was fetched; "": none
}

func (c *client) proxied(host string, proxy *url.URL) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.proxies) > 1000 {
		clear(c.proxies)
	}
	c.proxies[strings.ToLower(host)] = proxy.Host
}

func (c *client) proxyOf(host string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proxies[strings.ToLower(host)]
}

// get requests a URL and follows redirects within its host. allowed is asked about each of them.
func (c *client) get(ctx context.Context, u *url.URL, allowed func(*url.URL) error) (*page, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTime,
		fmt.Errorf("%s did not answer in full within %s", shownHost(u), requestTime))
	defer cancel()
	for hop := 0; ; hop++ {
		if err := allowed(u); err != nil {
			return nil, err
		}
		res, err := c.send(ctx, u)
		if err != nil {
			return nil, err
		}
		next, err := redirect(u, res)
		if err == nil && next != nil && sameHost(u, next) && u.Scheme == next.Scheme {
			res.Body.Close()
			if hop == maxRedirects {
				return nil, fmt.Errorf("more than %d redirects", maxRedirects)
			}
			u = next
			continue
		}
		defer res.Body.Close()
		if err != nil {
			return nil, err
		}
		p := &page{URL: u.String(), Status: status(res.StatusCode), Code: res.StatusCode, Fetched: c.now(),
			Proxy: c.proxyOf(u.Hostname()), Led: hop > 0}
		if next != nil {
			p.To = next.String()
			return p, nil
		}
		data, err := body(ctx, res)
		if err != nil {
			return nil, err
		}
		return p, p.read(ctx, u, res.Header.Get("Content-Type"), data)
	}
}

// status describes a status code in our words: the server's own are a stranger's text.
func status(code int) string {
	return strings.TrimSpace(strconv.Itoa(code) + " " + http.StatusText(code))
}

// send sends one request.
func (c *client) send(ctx context.Context, u *url.URL) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "Knack/"+strings.TrimSpace(c.opt.Version+" (fetches a page for its user)"))
	req.Header.Set("Accept", "text/markdown, text/html;q=0.9, */*;q=0.1")
	req.Header.Set("Accept-Encoding", "gzip, deflate")
	res, err := c.http.RoundTrip(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("%s: %w", shownHost(u), err)
	}
	return res, nil
}

// redirect returns where an answer redirects to, or nil.
func redirect(from *url.URL, res *http.Response) (*url.URL, error) {
	switch res.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
	default:
		return nil, nil
	}
	to, err := from.Parse(res.Header.Get("Location"))
	if err != nil || res.Header.Get("Location") == "" {
		return nil, fmt.Errorf("%s answers with a redirect that leads nowhere (%s)", shownHost(from), status(res.StatusCode))
	}
	if to, err = parse(to.String()); err != nil {
		return nil, fmt.Errorf("%s answers with a redirect that is not followed, because it leads to no web page",
			shownHost(from))
	}
	return to, nil
}

// body reads an answer, inflated, within the limits.
func body(ctx context.Context, res *http.Response) ([]byte, error) {
	sent := &counted{r: res.Body, left: maxBody}
	var r io.Reader = sent
	var err error
	switch encoding := strings.ToLower(strings.TrimSpace(res.Header.Get("Content-Encoding"))); encoding {
	case "", "identity":
	case "gzip", "x-gzip":
		r, err = gzip.NewReader(sent)
	case "deflate":
		r, err = zlib.NewReader(sent)
	default:
		return nil, errors.New("the answer is encoded in a way that was not asked for")
	}
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(r, maxInflated+1))
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, errTooLarge):
		return nil, errTooLarge
	case err == io.EOF && len(data) == 0: // an empty answer has no header of gzip either
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("the answer ended early: %w", err)
	case len(data) > maxInflated:
		return nil, fmt.Errorf("the answer is larger than %s when it is unpacked", plain.Size(maxInflated))
	}
	return data, nil
}

var errTooLarge = errors.New("the answer is larger than 10.0MB")

// counted fails after a number of bytes.
type counted struct {
	r    io.Reader
	left int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// read converts the content of an answer to text.
func (p *page) read(ctx context.Context, u *url.URL, contentType string, data []byte) error {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		media = strings.ToLower(strings.TrimSpace(strings.Split(contentType, ";")[0]))
	}
	start := bytes.TrimLeft(data[:min(len(data), 1024)], "\ufeff \t\r\n")
	switch {
	case bytes.HasPrefix(start, []byte("%PDF-")):
		media = "application/pdf"
	case media == "" || media == "application/octet-stream" || media == "unknown/unknown":
		media, _, _ = mime.ParseMediaType(http.DetectContentType(data))
	}
	p.Type = typeName(media)
	switch {
	case len(data) == 0:
		return nil
	case media == "application/pdf":
		return p.pdf(ctx, data)
	case !textual(media):
		return fmt.Errorf("%s is %s (%s): only pages, text and PDF files are shown", p.URL, p.Type,
			plain.Size(int64(len(data))))
	}
	text, note, err := decode(data, params["charset"], media)
	if err != nil {
		return err
	}
	if note != "" {
		p.Notes = append(p.Notes, note)
	}
	if media == "text/html" || media == "application/xhtml+xml" {
		if err := p.html(ctx, u, text); err != nil {
			return err
		}
	} else {
		p.Text = text
	}
	p.Text, p.Hidden = plain.Visible(foldLines(p.Text))
	return nil
}

// typeName returns a media type in a form that a server does not choose: one that is known, or its first part.
func typeName(media string) string {
	switch media {
	case "text/html", "application/xhtml+xml", "text/plain", "text/markdown", "text/xml", "text/css", "text/csv",
		"text/javascript", "application/pdf", "application/zip", "application/gzip", "application/octet-stream", "image/png",
		"image/jpeg", "image/gif", "image/webp", "image/svg+xml", "video/mp4", "audio/mpeg", "application/ld+json",
		"application/atom+xml", "application/rss+xml":
		return media
	}
	if textual(media) && !strings.HasPrefix(media, "text/") && !strings.Contains(media, "+") {
		return media
	}
	switch first, _, _ := strings.Cut(media, "/"); first {
	case "text", "image", "audio", "video", "font", "application":
		return first + " of another kind"
	}
	return "of an unknown type"
}

// textual reports whether a media type is text.
func textual(media string) bool {
	switch media {
	case "application/json", "application/xml", "application/javascript", "application/x-javascript", "application/yaml",
		"application/x-yaml", "application/toml", "application/sql", "application/x-sh", "application/ecmascript",
		"application/x-ndjson", "application/graphql", "message/rfc822":
		return true
	case "image/svg+xml":
		return false
	}
	return strings.HasPrefix(media, "text/") || strings.HasSuffix(media, "+json") || strings.HasSuffix(media, "+xml") ||
		strings.HasSuffix(media, "+yaml")
}

// longLine is the length at which lines are folded, in bytes, so that each can be reached with an offset.
const longLine = 4000

// foldLines breaks lines that are too long, at a blank if there is one.
func foldLines(text string) string {
	long := false
	for line := range strings.SplitSeq(text, "\n") {
		long = long || len(line) > longLine
	}
	if !long {
		return text
	}
	var b strings.Builder
	for line := range strings.SplitAfterSeq(text, "\n") {
		for len(line) > longLine {
			end := longLine
			if i := strings.LastIndexByte(line[:end], ' '); i > longLine/2 {
				end = i + 1
			}
			for end > 0 && line[end]&0xc0 == 0x80 { // inside a character
				end--
			}
			b.WriteString(line[:end])
			b.WriteByte('\n')
			line = line[end:]
		}
		b.WriteString(line)
	}
	return b.String()
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
