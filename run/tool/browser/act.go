package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/truncate"
)

var errNoRef = errors.New("there is no such element on the page any more: call browser_read and use a number that it " +
	"shows")

// on calls a JavaScript function with an element as its this and returns its result as text.
func (p *process) on(ctx context.Context, t *tab, ref int64, function string, args ...string) (string, error) {
	node, err := call(ctx, p.wire, t.id, dom.ResolveNode, dom.ResolveNodeParams{BackendNodeID: cdp.BackendNodeID(ref)})
	if err != nil || node.Object == nil {
		if ctx.Err() != nil || errors.Is(err, errEnded) {
			return "", err
		}
		return "", errNoRef
	}
	params := runtime.CallFunctionOnParams{FunctionDeclaration: function, ObjectID: node.Object.ObjectID}
	yes := true
	params.ReturnByValue, params.UserGesture = &yes, &yes
	for _, a := range args {
		text, err := json.Marshal(a)
		if err != nil {
			return "", err
		}
		params.Arguments = append(params.Arguments, &runtime.CallArgument{Value: text})
	}
	res, err := call(ctx, p.wire, t.id, runtime.CallFunctionOn, params)
	switch {
	case err != nil:
		return "", err
	case res.ExceptionDetails != nil:
		return "", errors.New("the page refused: " + plain.Line(res.ExceptionDetails.Text))
	case res.Result == nil:
		return "", nil
	}
	var text string
	json.Unmarshal(res.Result.Value, &text) // undefined is ""
	return text, nil
}

// covered returns what lies over the middle of an element and would get a click instead of it.
const covered = `function() {
	let e = this.nodeType === 1 ? this : this.parentElement, r = e.getBoundingClientRect();
	let top = e.getRootNode().elementFromPoint(r.x + r.width / 2, r.y + r.height / 2);
	if (!top || top === e || e.contains(top) || top.contains(e) || top.tagName === "LABEL") return "";
	return top.tagName.toLowerCase() + (top.id ? "#" + top.id : "");
}`

// element returns the name and ID of an element for a sentence of our own. A page could write one in an ID.
func element(name string) string {
	if len(name) > 60 || strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("#_-", r) && (r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r))
	}) {
		return "another element"
	}
	return name
}

func (b *Browser) click(ctx context.Context, in clickInput, _ tool.Input) (tool.Result, error) {
	p, t, err := b.in(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	x, y, err := p.middle(ctx, t, in.Ref)
	if err != nil {
		return tool.Result{}, err
	}
	over, err := p.on(ctx, t, in.Ref, covered)
	if err != nil {
		return tool.Result{}, err
	}
	if over != "" {
		return tool.Errorf("The element was not clicked: %s lies over it. Close that first.", element(over)), nil
	}
	for _, kind := range []input.DispatchMouseEventType{input.DispatchMouseEventTypeMouseMoved,
		input.DispatchMouseEventTypeMousePressed, input.DispatchMouseEventTypeMouseReleased} {
		e := input.DispatchMouseEventParams{Type: kind, X: x, Y: y}
		if kind != input.DispatchMouseEventTypeMouseMoved {
			e.Button, e.ClickCount = input.MouseButtonLeft, 1
		}
		if _, err := call(ctx, p.wire, t.id, input.DispatchMouseEvent, e); err != nil {
			return tool.Result{}, err
		}
	}
	return b.show(ctx, p, 0, false)
}

// middle scrolls to an element and returns the middle of it in the window.
func (p *process) middle(ctx context.Context, t *tab, ref int64) (x, y float64, err error) {
	id := cdp.BackendNodeID(ref)
	_, err = call(ctx, p.wire, t.id, dom.ScrollIntoViewIfNeeded, dom.ScrollIntoViewIfNeededParams{BackendNodeID: id})
	if err == nil {
		var found dom.GetContentQuadsResult
		found, err = call(ctx, p.wire, t.id, dom.GetContentQuads, dom.GetContentQuadsParams{BackendNodeID: id})
		for _, q := range found.Quads {
			if len(q) == 8 {
				return (q[0] + q[2] + q[4] + q[6]) / 4, (q[1] + q[3] + q[5] + q[7]) / 4, nil
			}
		}
	}
	switch {
	case ctx.Err() != nil, errors.Is(err, errEnded):
		return 0, 0, err
	case err != nil && strings.Contains(err.Error(), "node") && !strings.Contains(err.Error(), "layout"):
		return 0, 0, errNoRef
	}
	return 0, 0, errors.New("the element is not visible, so it cannot be clicked")
}

// fill prepares a field for typing: it selects what is in it. Fields in which nobody types are set, and the result says
// so: "set", or "no" if a list has no such option.
const fill = `function(text) {
	let changed = () => { for (let e of ["input", "change"]) this.dispatchEvent(new Event(e, {bubbles: true})); };
	if (this.tagName === "SELECT") {
		let o = [...this.options].find(o => o.label.trim() === text.trim() || o.value === text);
		if (!o) return "no:" + [...this.options].slice(0, 20).map(o => o.label.trim()).join(", ");
		this.value = o.value; changed(); return "set";
	}
	if (this.disabled || this.readOnly) return "closed";
	if (["date", "time", "datetime-local", "month", "week", "color", "range"].includes(this.type)) {
		Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(this, text);
		changed(); return "set";
	}
	this.focus();
	if (this.select) this.select(); else if (this.isContentEditable) getSelection().selectAllChildren(this);
	else return "other";
	return "";
}`

func (b *Browser) typeText(ctx context.Context, in typeInput, _ tool.Input) (tool.Result, error) {
	p, t, err := b.in(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	press, known := keys[strings.ToLower(in.Key)]
	switch {
	case in.Text == nil && in.Key == "":
		return tool.Result{}, errors.New("neither text nor key")
	case in.Key != "" && !known:
		return tool.Result{}, fmt.Errorf("the key %q is not known: one of %s", in.Key, keyNames())
	}
	set := ""
	switch {
	case in.Text != nil && in.Ref != 0:
		if set, err = p.on(ctx, t, in.Ref, fill, *in.Text); err != nil {
			return tool.Result{}, err
		}
		options, no := strings.CutPrefix(set, "no:")
		switch {
		case no:
			return tool.Errorf("There is no option %q; there are:\n%s", *in.Text, stranger(oneLine(options))), nil
		case set == "closed":
			return tool.Errorf("The field is disabled or read-only."), nil
		case set == "other":
			return tool.Errorf("Nothing can be typed into this element."), nil
		}
	case in.Ref != 0:
		if _, err := p.on(ctx, t, in.Ref, "function() { this.focus() }"); err != nil {
			return tool.Result{}, err
		}
	}
	if in.Text != nil && set == "" {
		if *in.Text == "" { // replaces the selection, too
			err = p.press(ctx, t, keys["delete"])
		} else {
			_, err = call(ctx, p.wire, t.id, input.InsertText, input.InsertTextParams{Text: *in.Text})
		}
		if err != nil {
			return tool.Result{}, err
		}
	}
	if in.Key != "" {
		if err := p.press(ctx, t, press); err != nil {
			return tool.Result{}, err
		}
	}
	return b.show(ctx, p, 0, false)
}

// A key is one of a keyboard.
type key struct {
	name, code, text string
	number           int64
}

var keys = map[string]key{
	"enter": {"Enter", "Enter", "\r", 13}, "tab": {"Tab", "Tab", "", 9}, "escape": {"Escape", "Escape", "", 27},
	"backspace": {"Backspace", "Backspace", "", 8}, "delete": {"Delete", "Delete", "", 46},
	"space": {" ", "Space", " ", 32}, "arrowup": {"ArrowUp", "ArrowUp", "", 38},
	"arrowdown": {"ArrowDown", "ArrowDown", "", 40}, "arrowleft": {"ArrowLeft", "ArrowLeft", "", 37},
	"arrowright": {"ArrowRight", "ArrowRight", "", 39}, "home": {"Home", "Home", "", 36}, "end": {"End", "End", "", 35},
	"pageup": {"PageUp", "PageUp", "", 33}, "pagedown": {"PageDown", "PageDown", "", 34},
}

func keyNames() string {
	var list []string
	for _, k := range keys {
		list = append(list, k.code)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

func (p *process) press(ctx context.Context, t *tab, k key) error {
	down := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeRawKeyDown, Key: k.name, Code: k.code,
		WindowsVirtualKeyCode: k.number, Text: k.text}
	if k.text != "" {
		down.Type = input.DispatchKeyEventTypeKeyDown
	}
	if _, err := call(ctx, p.wire, t.id, input.DispatchKeyEvent, down); err != nil {
		return err
	}
	_, err := call(ctx, p.wire, t.id, input.DispatchKeyEvent, input.DispatchKeyEventParams{
		Type: input.DispatchKeyEventTypeKeyUp, Key: k.name, Code: k.code, WindowsVirtualKeyCode: k.number})
	return err
}

// maxHeight is how much of a long page a screenshot shows, in pixels.
const maxHeight = 8000

func (b *Browser) screenshot(ctx context.Context, in screenshotInput, call2 tool.Input) (tool.Result, error) {
	p, t, err := b.in(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	path := ""
	if in.Path != "" {
		if path, err = b.opt.Workspace.Realpath(ctx, in.Path); err != nil {
			return tool.Result{}, err
		}
		if !call2.Allows(permission.KindEdit, path) {
			return tool.Result{}, errors.New("this path is not the one that was allowed")
		}
	}
	t.settle(ctx, p.ended)
	params := page.CaptureScreenshotParams{Format: page.CaptureScreenshotFormatPng}
	yes := true
	switch {
	case in.Ref != 0:
		if _, _, err := p.middle(ctx, t, in.Ref); err != nil {
			return tool.Result{}, err
		}
		box, err := call(ctx, p.wire, t.id, dom.GetBoxModel, dom.GetBoxModelParams{BackendNodeID: cdp.BackendNodeID(in.Ref)})
		if err != nil || box.Model == nil || len(box.Model.Border) != 8 {
			return tool.Result{}, errors.New("the element is not visible")
		}
		at, err := call(ctx, p.wire, t.id, page.GetLayoutMetrics, cdp.Empty{})
		if err != nil {
			return tool.Result{}, err
		}
		params.Clip = &page.Viewport{X: box.Model.Border[0], Y: box.Model.Border[1], Width: float64(box.Model.Width),
			Height: float64(box.Model.Height), Scale: 1}
		if v := at.CSSVisualViewport; v != nil { // the clip counts from the top of the page
			params.Clip.X += v.PageX
			params.Clip.Y += v.PageY
		}
	case in.Full:
		at, err := call(ctx, p.wire, t.id, page.GetLayoutMetrics, cdp.Empty{})
		if err != nil {
			return tool.Result{}, err
		}
		if s := at.CSSContentSize; s != nil {
			params.Clip = &page.Viewport{Width: s.Width, Height: min(s.Height, maxHeight), Scale: 1}
			params.CaptureBeyondViewport = &yes
		}
	}
	shot, err := call(ctx, p.wire, t.id, page.CaptureScreenshot, params)
	if err != nil {
		return tool.Result{}, err
	}
	at, title, err := p.where(ctx, t)
	if err != nil {
		return tool.Result{}, err
	}
	text := fmt.Sprintf("[%s · %s]", oneLine(at), plain.Size(int64(len(shot.Data))))
	if path != "" {
		if err := b.opt.Workspace.WriteFile(ctx, path, shot.Data); err != nil {
			return tool.Result{}, err
		}
		text += "\n[Written to " + plain.Line(in.Path) + ".]"
	}
	r := media(text, shot.Data)
	r.Details = Details{URL: at, Title: title}
	if path != "" {
		r.Touched = []string{path}
	}
	return r, nil
}

func (b *Browser) console(ctx context.Context, in consoleInput, _ tool.Input) (tool.Result, error) {
	p, t, err := b.in(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	t.settle(ctx, p.ended)
	t.mu.Lock()
	list := slices.Clone(t.console)
	t.mu.Unlock()
	var lines []string
	for _, l := range list {
		switch l.level {
		case "error", "exception", "warning", "assert":
		default:
			if in.Errors {
				continue
			}
		}
		line := l.level + ": " + oneLine(l.text)
		if l.at != "" {
			line += " (" + oneLine(l.at) + ")"
		}
		lines = append(lines, line)
	}
	if len(lines) == 0 {
		return tool.Text("[The console is empty.]"), nil
	}
	text := end(lines)
	return tool.Text(stranger(text)), nil
}

func (b *Browser) network(ctx context.Context, in networkInput, _ tool.Input) (tool.Result, error) {
	p, t, err := b.in(ctx)
	if err != nil {
		return tool.Result{}, err
	}
	t.settle(ctx, p.ended)
	t.mu.Lock()
	var lines []string
	var one *request
	for _, r := range t.requests {
		if r.number == in.Request {
			c := *r
			one = &c
		}
		if in.Filter == "" || strings.Contains(r.url, in.Filter) {
			lines = append(lines, r.line())
		}
	}
	t.mu.Unlock()
	switch {
	case in.Request != 0 && one == nil:
		return tool.Result{}, fmt.Errorf("there is no request %d", in.Request)
	case one != nil:
		return p.describe(ctx, t, one), nil
	case len(lines) == 0:
		return tool.Text("[No requests.]"), nil
	}
	text := end(lines)
	return tool.Text(b.blockedNote(t) + stranger(text)), nil
}

// end returns the last lines, within the usual limits.
func end(lines []string) string {
	t := truncate.Tail{Limits: truncate.Default()}
	io.WriteString(&t, strings.Join(lines, "\n")) // never fails
	text, _ := t.End()
	return text
}

// line describes a request in one line.
func (r *request) line() string {
	state := "pending"
	switch {
	case r.failure != "":
		state = "failed: " + r.failure
	case r.status != 0:
		state = fmt.Sprint(r.status)
	}
	s := fmt.Sprintf("%d %s %s %s", r.number, r.method, state, oneLine(r.url))
	if r.kind != "" {
		s += " " + strings.ToLower(r.kind)
	}
	if r.end > r.start {
		s += fmt.Sprintf(" %s %.0fms", plain.Size(int64(r.size)), (r.end-r.start)*1000)
	}
	return s
}

// A content is that of an answer, or what was sent. The types of the protocol's package decode it with a JSON library
// of their own, which would make the program 0.7 MB larger.
type content struct {
	Body    string `json:"body"`
	Sent    string `json:"postData"`
	Encoded bool   `json:"base64Encoded"`
}

var (
	getBody = cdp.Command[network.GetResponseBodyParams, content]{Method: network.CommandGetResponseBody}
	getSent = cdp.Command[network.GetRequestPostDataParams, content]{Method: network.CommandGetRequestPostData}
)

// describe returns the headers and the answer of a request. What proves who the user is, is left out.
func (p *process) describe(ctx context.Context, t *tab, r *request) tool.Result {
	lines := []string{r.line()}
	add := func(title string, h network.Headers) {
		var list []string
		for name, value := range h {
			switch strings.ToLower(name) {
			case "cookie", "set-cookie", "authorization", "proxy-authorization":
				value = "(left out)"
			}
			list = append(list, oneLine(fmt.Sprintf("  %s: %v", name, value)))
		}
		slices.Sort(list)
		if len(list) > 0 {
			lines = append(append(lines, title), list...)
		}
	}
	add("request", r.headers)
	if r.post {
		c, err := call(ctx, p.wire, t.id, getSent, network.GetRequestPostDataParams{RequestID: r.id})
		if err == nil && !c.Encoded {
			lines = append(lines, "sent: "+oneLine(c.Sent))
		}
	}
	add("answer", r.answer)
	body, err := call(ctx, p.wire, t.id, getBody, network.GetResponseBodyParams{RequestID: r.id})
	switch {
	case err != nil:
		lines = append(lines, "the content is not available any more")
	case body.Encoded:
		lines = append(lines, fmt.Sprintf("content: %s, %s", r.mime, plain.Size(int64(len(body.Body)*3/4))))
	default:
		text, _ := plain.Visible(body.Body)
		lines = append(lines, "content:", text)
	}
	text, cut := truncate.ToHead(strings.Join(lines, "\n"), truncate.Default())
	if cut.By != "" {
		text += "\n…"
	}
	return tool.Text(stranger(text))
}
