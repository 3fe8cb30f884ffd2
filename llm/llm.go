// Package llm defines what the runtime asks of a language model.
//
// Most people want [Model]: one method that streams one answer. The adapters
// (llm/anthropic, llm/openai, llm/google, llm/offline) implement it; no
// vendor's type leaves its adapter. llm/llmtest holds a scripted Model and
// scripted servers.
//
// The types here are data: they marshal to JSON without loss, so that a
// session log can keep them, and are safe to copy. A Model is safe for
// concurrent use.
package llm

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"time"

	fastjson "github.com/segmentio/encoding/json"
)

// A Model streams answers.
type Model interface {
	// Info describes the model. It does no I/O.
	Info() Info

	// Stream asks for one answer. It yields deltas while they arrive and, as
	// its last event, one whose Done is set. An error ends the stream; it is an
	// [*Error] where the provider said why. Stream does not retry. Breaking out
	// of the loop or cancelling ctx ends the request.
	Stream(ctx context.Context, req *Request) iter.Seq2[Event, error]
}

// Ask streams one answer and returns it when it is whole. Its errors are those
// of Stream; a stream that ends before its answer did is Broken.
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

// Info describes a model. Zero values mean unknown or unable.
type Info struct {
	ID        string `json:"id"` // "provider/model"
	Window    int    `json:"window,omitempty"`
	MaxOutput int    `json:"max_output,omitempty"`
	Vision    bool   `json:"vision,omitempty"`    // takes images
	Documents bool   `json:"documents,omitempty"` // takes PDF
	Thinking  bool   `json:"thinking,omitempty"`
	Caching   bool   `json:"caching,omitempty"` // has a prompt cache that is priced
	Price     Price  `json:"price"`
}

// A Price is in US dollars for a million tokens.
type Price struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cache_read"`
	CacheWrite float64 `json:"cache_write"`
	Long       Long    `json:"long,omitzero"`
}

// Long is how a long prompt changes a price: a request whose input, cached or
// not, is above so many tokens costs so many times as much. Above 0: never.
type Long struct {
	Above  int     `json:"above"`
	Input  float64 `json:"input"` // also of what the cache costs
	Output float64 `json:"output"`
}

// Cost is what the usage of one request costs at p, in US dollars. Add up
// costs, not usages: a long prompt may be dearer.
func (p Price) Cost(u Usage) float64 {
	in := float64(u.Input)*p.Input + float64(u.CacheRead)*p.CacheRead + float64(u.CacheWrite)*p.CacheWrite
	out := float64(u.Output) * p.Output
	if p.Long.Above > 0 && u.Input+u.CacheRead+u.CacheWrite > p.Long.Above {
		in, out = in*p.Long.Input, out*p.Long.Output
	}
	return (in + out) / 1e6
}

// A Request asks a model for one answer. Adapters place the prompt-cache
// breakpoints: after the tools, after the system text, and after the last
// message.
type Request struct {
	System    string
	Tools     []ToolSpec
	Messages  []Message
	MaxTokens int    // 0: the model's own limit
	Effort    string // "", low, medium, high, xhigh, max, or a number of thinking tokens
	Session   string // groups requests for the provider's cache; may be empty
	Memo      *Memo  `json:"-"` // of the conversation; may be nil
}

// A ToolSpec tells the model of a tool. Schema is a JSON Schema of an object.
type ToolSpec struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Schema      json.RawMessage `json:"schema"`
}

// A Role says who speaks.
type Role string

const (
	User      Role = "user"
	Assistant Role = "assistant"
)

// A Message is what one side says. Tool results are parts of a User message.
type Message struct {
	Role  Role   `json:"role"`
	Parts []Part `json:"parts"`
}

// A Part is one piece of a message; exactly one field is set (the zero Part is
// empty text).
type Part struct {
	Text     string      `json:"text,omitempty"`
	Thinking *Thinking   `json:"thinking,omitempty"`
	Media    *Media      `json:"media,omitempty"`
	Call     *ToolCall   `json:"call,omitempty"`
	Result   *ToolResult `json:"result,omitempty"`
	// Skill is the name of the skill whose text Text is; "": it is none. It is for
	// code that chooses what a model sees, and is not sent.
	Skill string `json:"-"`
}

// Text is a part that is text.
func Text(s string) Part { return Part{Text: s} }

// TextOf is the text of parts, one after the other. It leaves out what is not
// text, thinking too.
func TextOf(parts []Part) string { return JoinText(parts, "") }

// JoinText is TextOf with something between the texts.
func JoinText(parts []Part, between string) string {
	var texts []string
	for _, p := range parts {
		if p.Text != "" {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, between)
}

// Thinking is a model's reasoning. Opaque is what its provider needs to see
// again unchanged (a signature, an encrypted item); From names the model that
// made it: another model is not sent it.
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

// A ToolCall is the model's wish to run a tool. Input is the bytes as the
// model sent them; they need not be valid JSON.
type ToolCall struct {
	ID     string          `json:"id"`
	Name   string          `json:"name"`
	Input  json.RawMessage `json:"input"`
	Opaque string          `json:"opaque,omitempty"` // a provider's signature on the call
}

// storedCall is a ToolCall as JSON. Broken is an Input that is no JSON.
type storedCall struct {
	plainCall
	Broken string `json:"broken,omitempty"`
}

type plainCall ToolCall

// MarshalJSON writes the call whatever its input is, so that a session can
// keep what a model got wrong.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	s := storedCall{plainCall: plainCall(c)}
	if !json.Valid(c.Input) {
		s.Input, s.Broken = nil, string(c.Input)
	}
	return json.Marshal(s)
}

// UnmarshalJSON reads what MarshalJSON wrote.
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

// A ToolResult answers the call of the same ID.
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
	Call     *ToolCall // a call, complete
	Done     *Response // the whole answer; the last event
}

// A Response is a whole answer.
type Response struct {
	Message Message
	Stop    StopReason
	Usage   Usage
	Model   string // as the provider names it
}

// A StopReason explains why an answer ended.
type StopReason string

const (
	EndTurn   StopReason = "end_turn"
	ToolUse   StopReason = "tool_use"
	MaxTokens StopReason = "max_tokens"
	Refusal   StopReason = "refusal"
	Failed    StopReason = "failed" // the model could not do what was asked, and says why: the offline model
)

// Usage counts tokens. Input does not contain what was read from or written to
// the cache.
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

// An ErrorKind says what to do about an [Error].
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

// An Error is what a provider or the way to it answered instead of a stream.
type Error struct {
	Kind       ErrorKind
	Status     int           // HTTP status; 0 where there was none
	RetryAfter time.Duration // what the provider asked for; 0 if it did not
	Message    string        // the provider's own words, without secrets
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
