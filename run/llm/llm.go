// Package llm defines the interface to language models.
//
// The main type is [Model], which has one method that streams an answer. The adapters
// (llm/anthropic, llm/openai, llm/google, llm/offline) implement it; vendors' types are used only
// inside their adapters. llm/llmtest contains a scripted Model and scripted servers.
//
// The types here are data: they marshal to JSON without loss, so that a session log can store them,
// and are safe to copy. A Model is safe for concurrent use.
//
// Most programs start with package engine, the whole agent with settings, trust and approvals; examples/host is one.
package llm

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http/httptrace"
	"strings"
	"time"

	"github.com/knack-agent/knack/internal/leaf/fastjson"
)

// A Model streams answers.
type Model interface {
	// Info describes the model. It does no I/O.
	Info() Info

	// Stream requests one answer. It yields parts of the answer as they arrive; the last event has
	// Done set. An error ends the stream; it is an [*Error] if the provider gave the reason. Stream
	// does not retry. Breaking out of the loop or cancelling ctx ends the request.
	Stream(ctx context.Context, req *Request) iter.Seq2[Event, error]
}

// Ask requests one answer and returns it when it is complete. The errors are those of Stream; a
// stream that ends too early is a Broken error.
func Ask(ctx context.Context, m Model, req *Request) (*Response, error) {
	for ev, err := range m.Stream(ctx, req) {
		if err != nil {
			return nil, err
		}
		if ev.Done != nil {
			return ev.Done, nil
		}
	}
	return nil, &Error{Kind: Broken, Message: "the model's stream ended before its answer did"}
}

// AskText sends one prompt of the user, and returns the text of the answer and what it costs. maxTokens limits the answer.
func AskText(ctx context.Context, m Model, prompt string, maxTokens int) (string, Spend, error) {
	answer, err := Ask(ctx, m, &Request{MaxTokens: maxTokens,
		Messages: []Message{{Role: User, Parts: []Part{Text(prompt)}}}})
	if err != nil {
		return "", Spend{}, err
	}
	return TextOf(answer.Message.Parts), SpendOf(m, answer.Usage), nil
}

// OnSent returns a context for one request. sent is called when the request was written to the
// connection, before the answer comes; for each attempt, and by any goroutine. It must return at once.
// A Model that does not use HTTP does not call it.
func OnSent(ctx context.Context, sent func()) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { sent() },
	})
}

// Info describes a model. A zero value means unknown or not supported.
type Info struct {
	ID        string `json:"id"` // "provider/model"
	Window    int    `json:"window,omitempty"`
	MaxOutput int    `json:"max_output,omitempty"`
	Vision    bool   `json:"vision,omitempty"`    // accepts images
	Documents bool   `json:"documents,omitempty"` // accepts PDF
	Thinking  bool   `json:"thinking,omitempty"`
	Caching   bool   `json:"caching,omitempty"` // has a prompt cache with its own prices
	Search    bool   `json:"search,omitempty"`  // accepts a Request with Search; adapters set it
	Price     Price  `json:"price"`
}

// A Price is in US dollars per million tokens.
type Price struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cache_read"`
	CacheWrite float64 `json:"cache_write"`
	Long       Long    `json:"long,omitzero"`
}

// Long are the factors for the price of a long prompt: they apply to a request with more than Above
// input tokens, cached or not. Above 0: there is no such rule.
type Long struct {
	Above  int     `json:"above"`
	Input  float64 `json:"input"` // also for reading and writing the cache
	Output float64 `json:"output"`
}

// Cost returns the cost of one request's usage, in US dollars. To get a total, add costs, not
// usages, because a long prompt may have a higher price.
func (p Price) Cost(u Usage) float64 {
	in := float64(u.Input)*p.Input + float64(u.CacheRead)*p.CacheRead + float64(u.CacheWrite)*p.CacheWrite
	out := float64(u.Output) * p.Output
	if p.Long.Above > 0 && u.Input+u.CacheRead+u.CacheWrite > p.Long.Above {
		in, out = in*p.Long.Input, out*p.Long.Output
	}
	return (in + out) / 1e6
}

// A Spend is what a request beside a conversation consumed, such as that of a tool.
type Spend struct {
	Model string  `json:"model,omitempty"`
	Usage Usage   `json:"usage"`
	Cost  float64 `json:"cost,omitempty"` // US dollars
}

// SpendOf returns what an answer of a model consumed.
func SpendOf(m Model, u Usage) Spend {
	return Spend{Model: m.Info().ID, Usage: u, Cost: m.Info().Price.Cost(u)}
}

// A Request asks a model for one answer. Adapters set the prompt-cache breakpoints: after the
// tools, after the system text, after the last message, and after the last message of the request before.
type Request struct {
	System    string
	Tools     []ToolSpec
	Messages  []Message
	MaxTokens int    // 0: the model's own limit
	Effort    string // "", low, medium, high, xhigh, max, or a number of thinking tokens
	Session   string // groups requests for the provider's cache; may be empty
	Memo      *Memo  `json:"-"` // the Memo of the conversation; may be nil

	// LeftOut is told, with each request, of the tools that the provider does not get, because its format cannot say what
	// they take, or because it has refused their definition, and why; of images and documents, with the tool "". It may
	// be nil.
	LeftOut func(tool, reason string) `json:"-"`

	// Whole is told, with each request, why it is sent whole although [Endpoint.Threads] is set. It may be nil.
	Whole func(reason string) `json:"-"`

	// Search lets the provider search the web for the answer, with a tool of its own beside Tools; nil: it does not.
	// Adapters of formats that have none fail with the kind Invalid.
	Search *Search `json:",omitempty"`
}

// A Search restricts what a provider searches. The zero Search is the whole web. At most one of the lists may be set;
// a provider that cannot restrict its search ignores both.
type Search struct {
	Allowed []string `json:"allowed,omitempty"` // domains
	Blocked []string `json:"blocked,omitempty"`
}

// A Source is a page that a provider's search found. Its texts are untrusted.
type Source struct {
	Title string `json:"title,omitempty"`
	URL   string `json:"url"`
	// the domain of the page, if URL is the provider's and leads there; "": that of URL
	Site string `json:"site,omitempty"`
	Text string `json:"text,omitempty"` // what the answer cites of it, or takes from it; "": not known
}

// A ToolSpec describes a tool to the model. Schema is the JSON Schema of an object.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
}

// A Role is the author of a message.
type Role string

const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// A Message is written by one side. Tool results are parts of a User message.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// A Part is one piece of a message: exactly one of the first five fields is set (the zero Part is
// empty text).
type Part struct {
	Text     string      `json:"text,omitempty"`
	Thinking *Thinking   `json:"thinking,omitempty"`
	Media    *Media      `json:"media,omitempty"`
	Call     *ToolCall   `json:"call,omitempty"`
	Result   *ToolResult `json:"result,omitempty"`
	// Opaque is what the provider of a text needs back with it, in a form of the adapter's; "": nothing.
	Opaque string `json:"opaque,omitempty"`
	// Skill is the name of the skill whose text this is; "": none. It is not sent; it is for code
	// that chooses what a model sees.
	Skill string `json:"-"`
}

// Text returns a part with text.
func Text(s string) Part { return Part{Text: s} }

// NoOutput is the text of a tool result that has none, because vendors reject an empty one.
const NoOutput = "(no output)"

// TextOf returns the text of parts, concatenated. It ignores everything else, including thinking.
func TextOf(parts []Part) string { return JoinText(parts, "") }

// JoinText is TextOf with a separator between the texts.
func JoinText(parts []Part, between string) string {
	var texts []string
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, between)
}

// Thinking is a model's reasoning. Opaque is data that its provider needs back unchanged (a
// signature, an encrypted item). From is the ID of the model that made it; it is not sent to other
// models.
type Thinking struct {
	Text   string `json:"text,omitempty"`
	Opaque string `json:"opaque,omitempty"`
	From   string `json:"from,omitempty"`
}

// Media is an image or a document.
type Media struct {
	MIME string `json:"mime"`
	Name string `json:"name,omitempty"`
	Data []byte `json:"data"`
}

// Hash identifies the bytes.
func (m *Media) Hash() string { return fmt.Sprintf("%x", sha256.Sum256(m.Data)) }

// A ToolCall is a model's request to run a tool. Input is exactly what the model sent; it may be
// invalid JSON.
type ToolCall struct {
	ID     string          `json:"id"`
	Name   string          `json:"name"`
	Input  json.RawMessage `json:"input"`
	Opaque string          `json:"opaque,omitempty"` // a provider's signature on the call
}

// storedCall is the JSON form of a ToolCall. Broken is an Input that is not valid JSON.
type storedCall struct {
	plainCall
	Broken string `json:"broken,omitempty"`
}

type plainCall ToolCall

// MarshalJSON encodes the call even if its input is not valid JSON, so that a session can store a
// model's mistakes.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	s := storedCall{plainCall: plainCall(c)}
	if !json.Valid(c.Input) {
		s.Input, s.Broken = nil, string(c.Input)
	}
	return json.Marshal(s)
}

// UnmarshalJSON decodes the output of MarshalJSON.
func (c *ToolCall) UnmarshalJSON(data []byte) error {
	var s storedCall
	if err := fastjson.Unmarshal(data, &s); err != nil {
		return err
	}
	*c = ToolCall(s.plainCall)
	if s.Broken != "" {
		c.Input = json.RawMessage(s.Broken)
	}
	return nil
}

// A ToolResult answers the call with the same ID.
type ToolResult struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Parts   []Part `json:"parts"` // text and media only
	IsError bool   `json:"is_error,omitempty"`
}

// An Event is a piece of an answer; exactly one field is set.
type Event struct {
	Text     string    // a piece of the text
	Thinking string    // a piece of the reasoning
	Call     *ToolCall // a complete call
	Done     *Response // the complete answer; the last event
}

// A Response is a complete answer.
type Response struct {
	Message Message
	Stop    StopReason
	Usage   Usage
	Model   string   // the provider's name for it
	Sources []Source // of a Request with Search, in the order of the search, each URL once
}

// A StopReason is why an answer ended.
type StopReason string

const (
	EndTurn   StopReason = "end_turn"
	ToolUse   StopReason = "tool_use"
	MaxTokens StopReason = "max_tokens"
	Refusal   StopReason = "refusal"
	Paused    StopReason = "pause_turn" // the provider interrupted a long answer, which another request continues
	Failed    StopReason = "failed"     // the offline model could not do the task; the text explains why
)

// Usage counts tokens. Input does not include tokens read from or written to the cache.
type Usage struct {
	Input      int `json:"input"`
	Output     int `json:"output"`
	CacheRead  int `json:"cache_read"`
	CacheWrite int `json:"cache_write"`
}

// Add adds v to u.
func (u *Usage) Add(v Usage) {
	u.Input += v.Input
	u.Output += v.Output
	u.CacheRead += v.CacheRead
	u.CacheWrite += v.CacheWrite
}

// An ErrorKind tells how to handle an [Error].
type ErrorKind string

const (
	Invalid    ErrorKind = "invalid"    // the request is wrong; do not repeat it
	Auth       ErrorKind = "auth"       // no or wrong key
	RateLimit  ErrorKind = "rate_limit" // wait, then repeat
	Overloaded ErrorKind = "overloaded" // wait, then repeat
	Server     ErrorKind = "server"     // 5xx; repeat
	Broken     ErrorKind = "broken"     // the stream ended early or was garbled; repeat
	Overflow   ErrorKind = "overflow"   // the context window is full
)

// ErrNoBody is in the error of a request that was refused with status 400 and not a word. Some servers refuse a
// conversation that is too long like that, and gateways now and then any request.
var ErrNoBody = errors.New("refused without a reason")

// Word returns what hooks and hosts of other agents call the kind.
func (k ErrorKind) Word() string {
	switch k {
	case Invalid, Overflow:
		return "invalid_request"
	case Auth:
		return "authentication_failed"
	case RateLimit, Overloaded:
		return string(k)
	}
	return "server_error"
}

// An Error is a failure reported by a provider or by the connection to it.
type Error struct {
	Kind       ErrorKind
	Status     int           // HTTP status; 0 if there was none
	RetryAfter time.Duration // how long the provider asked to wait; 0 if it did not
	Message    string        // the provider's message, without secrets
	Media      string        // the hash of the media in the request that the message names; "": it names none
	Err        error
}

func (e *Error) Error() string {
	if e.Message != "" {
		return e.Message
	}
	if e.Err != nil {
		return e.Err.Error()
	}
	return string(e.Kind)
}

func (e *Error) Unwrap() error { return e.Err }

// Temporary reports whether the same request may succeed later.
func (e *Error) Temporary() bool {
	switch e.Kind {
	case RateLimit, Overloaded, Server, Broken:
		return true
	}
	return false
}
