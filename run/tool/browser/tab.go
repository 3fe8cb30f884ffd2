package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
)

// How many entries are kept of each kind.
const (
	maxConsole  = 200
	maxRequests = 300
)

// A tab is a page of the browser and what happened in it.
type tab struct {
	id     target.SessionID
	target target.ID
	ready  bool // its events arrive

	mu       sync.Mutex
	loading  bool
	frame    cdp.FrameID // the main one; "": not known yet
	open     map[network.RequestID]*request
	requests []*request
	numbered int             // requests so far
	hosts    map[string]bool // that the page asked for, as "host:port"
	console  []logged
	fresh    bool     // a page opened it, which the model has not been told yet
	said     []string // what its dialogs said, which the model has not been told yet
	last     time.Time
	changed  chan struct{} // closed and replaced when something above changes
}

// A request is one that a page made.
type request struct {
	number  int
	id      network.RequestID
	loader  cdp.LoaderID // of the page that made it
	method  string
	url     string
	kind    string
	status  int64
	mime    string
	size    float64
	failure string
	start   float64 // seconds of the browser's clock
	end     float64 // 0: it has not ended
	headers network.Headers
	answer  network.Headers
	post    bool
}

// A logged line is one of the console.
type logged struct {
	level string
	text  string
	at    string
}

// handle takes an event of the browser.
func (p *process) handle(id target.SessionID, method string, params json.RawMessage) {
	switch method {
	case target.AttachedToTarget.Method:
		var e target.EventAttachedToTarget
		if json.Unmarshal(params, &e) == nil && e.TargetInfo != nil {
			p.attached(&e)
		}
		return
	case target.DetachedFromTarget.Method:
		var e target.EventDetachedFromTarget
		if json.Unmarshal(params, &e) == nil {
			p.mu.Lock()
			p.tabs = slices.DeleteFunc(p.tabs, func(t *tab) bool { return t.id == e.SessionID })
			p.announce()
			p.mu.Unlock()
		}
		return
	}
	p.mu.Lock()
	i := slices.IndexFunc(p.tabs, func(t *tab) bool { return t.id == id })
	var t *tab
	if i >= 0 {
		t = p.tabs[i]
	}
	p.mu.Unlock()
	if t == nil {
		return
	}
	if method == page.JavascriptDialogOpening.Method {
		var e page.EventJavascriptDialogOpening
		if json.Unmarshal(params, &e) == nil {
			t.dialog(e.Type, e.Message)
		}
		go call(context.Background(), p.wire, id, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{
			Accept: answerTo(e.Type) == "OK"})
		return
	}
	t.handle(method, params)
}

// answerTo is how dialogs of pages are answered: nothing is confirmed that somebody could mean to ask the user.
func answerTo(kind page.DialogType) string {
	if kind == page.DialogTypeAlert || kind == page.DialogTypeBeforeunload {
		return "OK"
	}
	return "Cancel"
}

// announce wakes those who wait for a tab. The caller holds the lock.
func (p *process) announce() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// attached takes over a new tab. What is no page (a worker, a frame of another site) runs on without being watched.
func (p *process) attached(e *target.EventAttachedToTarget) {
	t := &tab{id: e.SessionID, target: e.TargetInfo.TargetID, open: map[network.RequestID]*request{},
		hosts: map[string]bool{}, changed: make(chan struct{}), last: time.Now()}
	isPage := e.TargetInfo.Type == "page"
	if isPage {
		p.mu.Lock()
		t.fresh = len(p.tabs) > 0
		p.tabs = append(p.tabs, t)
		p.mu.Unlock()
	}
	go func() {
		ctx := context.Background()
		if isPage { // an error means that the tab is gone
			call(ctx, p.wire, t.id, page.Enable, page.EnableParams{})
			call(ctx, p.wire, t.id, dom.Enable, dom.EnableParams{})
			call(ctx, p.wire, t.id, network.Enable, network.EnableParams{})
			call(ctx, p.wire, t.id, runtime.Enable, cdp.Empty{})
			call(ctx, p.wire, t.id, cdplog.Enable, cdp.Empty{})
		}
		call(ctx, p.wire, t.id, runtime.RunIfWaitingForDebugger, cdp.Empty{})
		if !isPage {
			return
		}
		p.mu.Lock()
		t.ready = true
		p.announce()
		p.mu.Unlock()
	}()
}

// tab waits for the tab that is in use: the newest.
func (p *process) tab(ctx context.Context) (*tab, error) {
	for {
		p.mu.Lock()
		changed := p.changed
		if n := len(p.tabs); n > 0 && p.tabs[n-1].ready {
			defer p.mu.Unlock()
			return p.tabs[n-1], nil
		}
		p.mu.Unlock()
		select {
		case <-changed:
		case <-p.ended:
			return nil, errEnded
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// dialog notes what a dialog said: text of the page, which is told as such.
func (t *tab) dialog(kind page.DialogType, message string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.said) < 20 {
		t.said = append(t.said, fmt.Sprintf("- dialog (%s), answered with %s: %q", kind, answerTo(kind), oneLine(message)))
	}
}

// handle takes an event of the tab.
func (t *tab) handle(method string, params json.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	defer func() {
		t.last = time.Now()
		close(t.changed)
		t.changed = make(chan struct{})
	}()
	switch method {
	case page.FrameStartedLoading.Method:
		var e page.EventFrameStartedLoading
		if json.Unmarshal(params, &e) == nil && (t.frame == "" || e.FrameID == t.frame) {
			t.loading = true
		}
	case page.FrameStoppedLoading.Method:
		var e page.EventFrameStoppedLoading
		if json.Unmarshal(params, &e) == nil && (t.frame == "" || e.FrameID == t.frame) {
			t.loading = false
		}
	case page.FrameNavigated.Method:
		var e page.EventFrameNavigated
		if json.Unmarshal(params, &e) == nil && e.Frame != nil && e.Frame.ParentID == "" {
			t.frame = e.Frame.ID
			past := func(r *request) bool {
				return r.loader != e.Frame.LoaderID && r.kind != string(network.ResourceTypeDocument)
			}
			maps.DeleteFunc(t.open, func(_ network.RequestID, r *request) bool { return past(r) }) // it may never end
			t.requests = slices.DeleteFunc(t.requests, past)
			t.console = nil
		}
	case network.RequestWillBeSent.Method:
		var e network.EventRequestWillBeSent
		if json.Unmarshal(params, &e) != nil || e.Request == nil {
			return
		}
		t.asked(e.Request.URL)
		if r := t.open[e.RequestID]; r != nil && e.RedirectResponse != nil {
			r.answered(e.RedirectResponse)
			r.end = seconds(e.Timestamp)
		}
		t.numbered++
		r := &request{number: t.numbered, id: e.RequestID, loader: e.LoaderID, method: e.Request.Method,
			url: short(e.Request.URL), kind: string(e.Type),
			start: seconds(e.Timestamp), headers: e.Request.Headers, post: e.Request.HasPostData}
		t.requests = append(t.requests, r)
		if len(t.requests) > maxRequests {
			t.requests = slices.Clone(t.requests[len(t.requests)-maxRequests:])
		}
		if e.Type != network.ResourceTypeEventSource && !strings.HasPrefix(r.url, "data:") {
			t.open[e.RequestID] = r
		}
	case network.WebSocketCreated.Method:
		var e network.EventWebSocketCreated
		if json.Unmarshal(params, &e) == nil {
			t.asked(e.URL)
		}
	case network.ResponseReceived.Method:
		var e network.EventResponseReceived
		if json.Unmarshal(params, &e) == nil && e.Response != nil {
			if r := t.find(e.RequestID); r != nil {
				r.answered(e.Response)
			}
		}
	case network.LoadingFinished.Method:
		var e network.EventLoadingFinished
		if json.Unmarshal(params, &e) == nil {
			if r := t.find(e.RequestID); r != nil {
				r.end, r.size = seconds(e.Timestamp), e.EncodedDataLength
			}
			delete(t.open, e.RequestID)
		}
	case network.LoadingFailed.Method:
		var e network.EventLoadingFailed
		if json.Unmarshal(params, &e) == nil {
			if r := t.find(e.RequestID); r != nil {
				r.end, r.failure = seconds(e.Timestamp), e.ErrorText
				if e.BlockedReason != "" {
					r.failure += " (" + string(e.BlockedReason) + ")"
				}
			}
			delete(t.open, e.RequestID)
		}
	case runtime.ConsoleAPICalled.Method:
		var e runtime.EventConsoleAPICalled
		if json.Unmarshal(params, &e) == nil {
			var parts []string
			for _, a := range e.Args {
				parts = append(parts, short(shown(a)))
			}
			at := ""
			if s := e.StackTrace; s != nil && len(s.CallFrames) > 0 {
				at = place(s.CallFrames[0].URL, s.CallFrames[0].LineNumber)
			}
			t.log(string(e.Type), strings.Join(parts, " "), at)
		}
	case runtime.ExceptionThrown.Method:
		var e runtime.EventExceptionThrown
		if json.Unmarshal(params, &e) == nil && e.ExceptionDetails != nil {
			d := e.ExceptionDetails
			text := d.Text
			if d.Exception != nil && d.Exception.Description != "" {
				text += ": " + d.Exception.Description
			}
			t.log("exception", text, place(d.URL, d.LineNumber))
		}
	case cdplog.EntryAdded.Method:
		var e cdplog.EventEntryAdded
		if json.Unmarshal(params, &e) == nil && e.Entry != nil {
			t.log(string(e.Entry.Level), e.Entry.Text, place(e.Entry.URL, e.Entry.LineNumber))
		}
	}
}

// asked records the host of a request. The caller holds the lock.
func (t *tab) asked(address string) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || len(t.hosts) >= maxRequests {
		return
	}
	port := u.Port()
	if port == "" {
		port = "443"
		if u.Scheme == "http" || u.Scheme == "ws" {
			port = "80"
		}
	}
	t.hosts[u.Hostname()+":"+port] = true
}

func seconds(at cdp.MonotonicTime) float64 { return float64(at) }

// find returns the newest request with an id. The caller holds the lock.
func (t *tab) find(id network.RequestID) *request {
	for _, r := range slices.Backward(t.requests) {
		if r.id == id {
			return r
		}
	}
	return nil
}

func (r *request) answered(a *network.Response) {
	r.status, r.mime, r.answer = a.Status, a.MimeType, a.Headers
}

// log adds a line to the console. The caller holds the lock.
func (t *tab) log(level, text, at string) {
	t.console = append(t.console, logged{level, oneLine(text), oneLine(at)})
	if len(t.console) > maxConsole {
		t.console = slices.Clone(t.console[len(t.console)-maxConsole:])
	}
}

// shown returns a value that a page logged as the console shows it.
func shown(v *runtime.RemoteObject) string {
	var s string
	switch {
	case json.Unmarshal(v.Value, &s) == nil:
		return s
	case v.Description != "":
		return v.Description
	case len(v.Value) > 0:
		return string(v.Value)
	}
	return string(v.Type)
}

func place(url string, line int64) string {
	if url == "" {
		return ""
	}
	return fmt.Sprintf("%s:%d", url, line+1)
}

// settle waits until the page has loaded: nothing is requested for a short time. It gives up after some seconds,
// because there are pages that never stop, and reports whether the page had loaded.
func (t *tab) settle(ctx context.Context, ended <-chan struct{}) bool {
	limit := time.NewTimer(settleTime)
	defer limit.Stop()
	for {
		t.mu.Lock()
		changed, left := t.changed, quietTime
		if !t.loading && len(t.open) == 0 {
			if left = quietTime - time.Since(t.last); left <= 0 {
				t.mu.Unlock()
				return true
			}
		} else {
			left = settleTime
		}
		t.mu.Unlock()
		quiet := time.NewTimer(left)
		select {
		case <-changed:
		case <-quiet.C:
		case <-limit.C:
			quiet.Stop()
			return false
		case <-ended:
			quiet.Stop()
			return false
		case <-ctx.Done():
			quiet.Stop()
			return false
		}
		quiet.Stop()
	}
}
