package wire

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/knack-agent/knack/run/llm"
)

// A report has the members of the error objects of vendors, gateways and frameworks. Google's code is a number,
// OpenAI's is a string or null. A member of an unexpected type is as good as none.
type report struct {
	Message string
	Type    string
	Status  string
	Code    string

	reasons []string
	wait    time.Duration
	detail  string // Anthropic's error_code
}

// A body is the JSON of a report, and of what servers wrap around it.
type body struct {
	Error   json.RawMessage `json:"error"`
	Message json.RawMessage `json:"message"`
	Detail  json.RawMessage `json:"detail"` // FastAPI: a text, or a list of objects
	Msg     json.RawMessage `json:"msg"`
	Errors  json.RawMessage `json:"errors"`    // Cloudflare
	Base    json.RawMessage `json:"base_resp"` // MiniMax
	Text    json.RawMessage `json:"status_msg"`
	Type    json.RawMessage `json:"type"`
	Status  json.RawMessage `json:"status"`
	Code    json.RawMessage `json:"code"`
	Param   json.RawMessage `json:"param"`
	// The upstream's own error, as OpenRouter passes it on.
	Metadata json.RawMessage `json:"metadata"`
	Details  json.RawMessage `json:"details"`
}

// StatusError returns the error for an HTTP response whose status is not 2xx.
func StatusError(e *llm.Endpoint, status int, header http.Header, body []byte) *llm.Error {
	r := parseReport(body)
	err := r.err(e, status)
	if header != nil {
		if d, ok := retryAfter(header); ok {
			err.RetryAfter = d
		}
	}
	if r.Message == "" {
		err.Message = fmt.Sprintf("%s: HTTP %d %s", e.Info.ID, status, http.StatusText(status))
		text := strings.TrimSpace(string(body))
		if title, page := pageTitle(text); page {
			err.Message = redact(err.Message+": a web page"+title, e.Key)
		} else if text != "" && len(text) <= 500 {
			err.Message = redact(err.Message+": "+text, e.Key)
			err.Kind = report{Message: text}.kind(status)
		}
	}
	switch status { // these are not of the provider
	case http.StatusProxyAuthRequired:
		err.Kind, err.Message = llm.Invalid, e.Info.ID+": "+proxyPassword
	case http.StatusNetworkAuthenticationRequired:
		err.Kind, err.Message = llm.Invalid, e.Info.ID+": the network wants a login first: open any page in a browser"
	}
	if status == http.StatusBadRequest && (len(bytes.TrimSpace(body)) == 0 || strings.Contains(r.Message, "(no body)")) {
		err.Kind, err.Err = llm.Broken, llm.ErrNoBody
		err.Message += " without a reason: is the conversation too long?"
	}
	return err
}

// StreamError returns the error for an error event in a stream: an object with a field "error", the value of that
// field, or a text.
func StreamError(e *llm.Endpoint, data []byte) *llm.Error {
	r := parseReport(data)
	if text := string(bytes.TrimSpace(data)); r.Message == "" && r.Type == "" && !strings.HasPrefix(text, "{") {
		r.Message = shortened(text)
	}
	if r.Message == "" && r.Type == "" {
		return InvalidData(e, data)
	}
	return r.err(e, 0)
}

// IsReport reports whether data is an error object without a field "error", as some servers send it in the place of
// an answer.
func IsReport(data []byte) bool { return parseReport(data).Message != "" }

// err returns the error for an answer that is neither events nor JSON. A web page will be one the next time, too.
func (n *notEvents) err(e *llm.Endpoint) *llm.Error {
	out := &llm.Error{Kind: llm.Broken, Message: redact(e.Info.ID+": "+n.Error(), e.Key), Err: n}
	if _, page := pageTitle(n.text); page {
		out.Kind, out.Message = llm.Invalid, out.Message+
			": is the base URL the address of the API, or does the network want a login first?"
	}
	return out
}

// parseReport decodes an error object, or the value of its member "error". It returns a zero report if data is neither.
func parseReport(data []byte) report {
	data = bytes.TrimSpace(data)
	var list []json.RawMessage
	if json.Unmarshal(data, &list) == nil && len(list) > 0 { // Google sends a list if a stream was requested
		data = list[0]
	}
	var b body
	if json.Unmarshal(data, &b) != nil {
		return report{Message: textOf(data)}
	}
	for _, inner := range []json.RawMessage{b.Error, b.Errors, b.Base, object(b.Message)} {
		if r := parseReport(inner); len(inner) > 0 && (r.Message != "" || r.Type != "" || r.Code != "") {
			r.Type, r.Code = cmp.Or(r.Type, textOf(b.Type)), cmp.Or(r.Code, textOf(b.Code))
			r.Message = cmp.Or(r.Message, textOf(b.Message), textOf(b.Detail))
			return r
		}
	}
	r := report{Type: textOf(b.Type), Status: textOf(b.Status), Code: textOf(b.Code),
		Message: cmp.Or(textOf(b.Message), textOf(b.Msg), textOf(b.Detail), textOf(b.Text))}
	param := textOf(b.Param)
	if strings.HasPrefix(param, "tools") && r.Message != "" && !strings.Contains(r.Message, "tools") {
		r.Message += " (" + param + ")" // few messages say which
	}
	r.addMetadata(b.Metadata)
	r.addDetails(b.Details)
	return r
}

// object returns a value that is an object, else nil.
func object(data json.RawMessage) json.RawMessage {
	if bytes.HasPrefix(data, []byte("{")) {
		return data
	}
	return nil
}

// addMetadata adds what the upstream of a gateway said to a message such as "Provider returned error".
func (r *report) addMetadata(data json.RawMessage) {
	var m struct {
		Raw      json.RawMessage `json:"raw"`
		Provider string          `json:"provider_name"`
	}
	if json.Unmarshal(data, &m) != nil || len(m.Raw) == 0 {
		return
	}
	raw := m.Raw
	var quoted string
	if json.Unmarshal(raw, &quoted) == nil {
		raw = json.RawMessage(quoted)
	}
	text := cmp.Or(parseReport(raw).Message, shortened(quoted))
	if text != "" && text != r.Message {
		r.Message += ": " + text
	}
	if m.Provider != "" {
		r.Message += " (" + m.Provider + ")"
	}
}

func (r *report) addDetails(data json.RawMessage) {
	var one struct {
		Code string `json:"error_code"`
	}
	if json.Unmarshal(data, &one) == nil {
		r.detail = one.Code
	}
	var details []struct {
		Reason     string `json:"reason"`
		RetryDelay string `json:"retryDelay"`
	}
	json.Unmarshal(data, &details) // what cannot be read says nothing
	for _, d := range details {
		r.reasons = append(r.reasons, d.Reason)
		if wait, err := time.ParseDuration(d.RetryDelay); err == nil && wait > 0 {
			r.wait = wait
		}
	}
}

// textOf returns a text or number of JSON, or the texts of a list of errors; "" for anything else.
func textOf(data json.RawMessage) string {
	var s string
	if json.Unmarshal(data, &s) == nil {
		return strings.TrimSpace(s)
	}
	var n json.Number
	if json.Unmarshal(data, &n) == nil {
		return n.String()
	}
	var list []json.RawMessage
	if json.Unmarshal(data, &list) != nil {
		return ""
	}
	var all []string
	for _, x := range list {
		var d struct {
			Loc     []any  `json:"loc"`
			Msg     string `json:"msg"`
			Message string `json:"message"`
		}
		if json.Unmarshal(x, &d) != nil || d.Msg+d.Message == "" {
			continue
		}
		text := d.Msg + d.Message
		if len(d.Loc) > 0 {
			text = strings.Trim(fmt.Sprintln(d.Loc...), "\n") + ": " + text
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// err converts a report to an error. status is the HTTP status; 0: that of the report, if it has one.
func (r report) err(e *llm.Endpoint, status int) *llm.Error {
	if n, err := strconv.Atoi(r.Code); err == nil && status == 0 && n >= 400 && n < 600 {
		status = n
	}
	out := &llm.Error{Status: status, Kind: r.kind(status), Message: redact(e.Info.ID+": "+r.Message, e.Key),
		RetryAfter: r.wait}
	if status == http.StatusNotFound && r.Message != "" { // the message may be only "model: NAME"
		out.Message = redact(e.Info.ID+": not found: "+r.Message, e.Key)
	}
	if r.Message == "" {
		out.Message = e.Info.ID + ": " + r.Type + r.Code
	}
	if r.detail != "" {
		out.Err = Code(r.detail)
	}
	return out
}

func (r report) kind(status int) llm.ErrorKind {
	for _, reason := range r.reasons {
		if reason == "API_KEY_INVALID" {
			return llm.Auth
		}
	}
	switch {
	case r.Code == "tool_use_failed": // Groq: the model wrote a call that the server cannot read; it may do better
		return llm.Broken
	case status != 401 && status != 403 && status != 429 && overflows(r.Message): // whatever type a server gives it
		return llm.Overflow
	}
	if strings.Contains(r.Message, "requires more system memory") { // Ollama, with 500: the next time, too
		return llm.Invalid
	}
	for _, word := range [...]string{r.Code, r.Type, r.Status} {
		// Gateways write "api_error" into the body of any error.
		if kind := wordKind(word); kind != "" && !(isFinal(status) && (&llm.Error{Kind: kind}).Temporary()) {
			return kind
		}
	}
	switch {
	case status == 401, status == 402, status == 403:
		return llm.Auth
	case status == 413:
		return llm.Overflow
	case status == 429:
		return llm.RateLimit
	case status == 503, status == 529:
		return llm.Overloaded
	case status >= 500, status == 408, status == 409, status == 425:
		return llm.Server
	case status == 0 && passes(r.Message), status == 400 && crashed(r.Message):
		return llm.Server
	case refusesKey(r.Message):
		return llm.Auth
	}
	return llm.Invalid
}

// wordKind returns the kind for a code, type or status in an error object; "": it does not tell.
func wordKind(word string) llm.ErrorKind {
	switch word {
	case "context_length_exceeded", "exceed_context_size_error", "request_too_large", "model_context_window_exceeded":
		return llm.Overflow
	case "insufficient_quota", "billing_error", "invalid_api_key", "authentication_error", "permission_error",
		"UNAUTHENTICATED", "PERMISSION_DENIED":
		return llm.Auth
	case "overloaded_error", "server_is_overloaded", "UNAVAILABLE":
		return llm.Overloaded
	case "rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED", "too_many_requests":
		return llm.RateLimit
	case "api_error", "server_error", "internal_error", "internal_server_error", "InternalServerError", "timeout_error",
		"INTERNAL", "provider_unavailable":
		return llm.Server
	}
	return ""
}

// isFinal reports whether an HTTP status means that the same request will fail again.
func isFinal(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return status >= 400 && status < 500
}

// refusesKey recognises an error about the key that has no status or code for it.
func refusesKey(message string) bool {
	m := strings.ToLower(message)
	return strings.Contains(m, "incorrect api key") || strings.Contains(m, "invalid api key")
}

// crashed recognises what a server says with status 400 while it has no model that runs; it starts one for the next
// request.
func crashed(message string) bool {
	return hasAny(strings.ToLower(message), "model has crashed", "model unloaded", "model is unloaded", "channel error")
}

// passes reports whether an error without a status and without a known code will pass: its message is all that is
// known of it.
func passes(message string) bool {
	m := strings.ToLower(message)
	for _, words := range [...]string{
		"overloaded", "try again", "temporarily", "unavailable", "timed out", "timeout", "internal server error",
		"internal error", "upstream", "bad gateway", "too many requests", "rate limit", "capacity", "disconnected",
		"connection", "server had an error", "provider returned error", "crashed",
	} {
		if strings.Contains(m, words) {
			return true
		}
	}
	return false
}
