// Package llmtest contains a scripted model and scripted servers.
//
// Most tests use [Script], an llm.Model that returns prepared answers and stores the requests, or
// [NewServer], an HTTP server that returns the same answers in the vendors' formats and rejects the
// requests that the vendors reject.
//
// Package eval/record keeps the answers of a real model, and replays them.
//
// A script is a list of [Answer] values, or a file with a JSON array of them ([ReadScript]).
// Answers are used in order, but one with When is skipped until the last user message matches it,
// so that parallel conversations can share a script. Want is what a request must contain; Take
// copies text from the request into the answer.
//
// Most programs start with package engine.
package llmtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/run/llm"
)

// An Answer is one answer of a scripted model. The zero Answer is empty text.
type Answer struct {
	When string   `json:"when,omitempty"` // regexp for the text of the last user message; "": always
	Want []string `json:"want,omitempty"` // regexps that the request's text must match; a failed one is named in the error
	// Take maps a name to a regexp. In Text and Calls, ${name} is replaced with the first group of
	// the last match.
	Take map[string]string `json:"take,omitempty"`

	Thinking string         `json:"thinking,omitempty"`
	Text     string         `json:"text,omitempty"`
	Pad      int            `json:"pad,omitempty"` // how often " and so on" is appended to Text, for a long answer
	Calls    []Call         `json:"calls,omitempty"`
	Found    []llm.Source   `json:"found,omitempty"`  // what the provider's search found, for a request with Search
	Stop     llm.StopReason `json:"stop,omitempty"`   // "": derived from Calls
	Usage    llm.Usage      `json:"usage,omitzero"`   // zero: estimated at four characters per token
	Error    *llm.Error     `json:"-"`                // returned instead of an answer
	Status   int            `json:"status,omitempty"` // in files, for Error: 429, 529, 500, 401, 400, 413
	Message  string         `json:"message,omitempty"`
	Retry    float64        `json:"retry_after,omitempty"` // seconds, with Status

	Break Break `json:"break,omitempty"`
	Delay int   `json:"delay_ms,omitempty"` // before the answer starts; shorter if the request is cancelled
	Piece int   `json:"piece,omitempty"`    // characters per delta; 0: 12
}

// A Call is a tool call by a scripted model.
type Call struct {
	ID    string `json:"id,omitempty"` // "": generated, unique in the script
	Name  string `json:"name"`
	Input any    `json:"input,omitempty"` // a string is sent unchanged, so that it can be invalid JSON
}

// A Break is how an answer fails after half of it was sent.
type Break string

const (
	Whole  Break = ""
	Drop   Break = "drop"   // the connection is lost
	Cut    Break = "cut"    // the stream ends normally, but the end of the answer is missing
	Garble Break = "garble" // the stream continues with invalid data
	Fail   Break = "fail"   // the provider reports in the stream that it is overloaded
	Hang   Break = "hang"   // nothing more is sent until the request is cancelled
	Late   Break = "late"   // the connection is lost after the whole answer, before the stream ends
)

// ReadScript reads a file with a JSON array of answers.
func ReadScript(file string) ([]Answer, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var answers []Answer
	dec := json.NewDecoder(strings.NewReader(string(data)))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&answers); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return answers, nil
}

// Reply returns an answer with text.
func Reply(text string) Answer { return Answer{Text: text} }

// Use returns an answer that calls one tool.
func Use(name string, input any) Answer { return Answer{Calls: []Call{{Name: name, Input: input}}} }

// Script is a scripted llm.Model. The zero Script has no answers. Set its fields before the first
// request; after that it is safe for concurrent use.
type Script struct {
	Answers []Answer
	// Func returns the answer if no entry of Answers is left; nil: that is an error.
	Func func(*llm.Request) Answer
	// Model is the result of Info. If its ID is "", the ID is "test/script".
	Model llm.Info

	player   player
	mu       sync.Mutex
	requests []*llm.Request
}

// New returns a scripted model.
func New(answers ...Answer) *Script { return &Script{Answers: answers} }

// Requests returns copies of the requests in the order in which they arrived.
func (s *Script) Requests() []*llm.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Left returns the number of unused answers.
func (s *Script) Left() int { return s.player.left(s.Answers) }

func (s *Script) Info() llm.Info {
	i := s.Model
	if i.ID == "" {
		i.ID = "test/script"
	}
	return i
}

func (s *Script) Stream(ctx context.Context, req *llm.Request) iter.Seq2[llm.Event, error] {
	return func(yield func(llm.Event, error) bool) {
		req := copyRequest(req)
		s.mu.Lock()
		s.requests = append(s.requests, req)
		s.mu.Unlock()
		text := textsOf(req)
		a, err := s.player.next(s.Answers, text)
		if errors.Is(err, errUsedUp) && s.Func != nil {
			a, err = s.player.fill(s.Func(req), text)
		}
		if err != nil {
			yield(llm.Event{}, &llm.Error{Kind: llm.Invalid, Message: err.Error(), Err: err})
			return
		}
		if !wait(ctx, a.Delay) {
			yield(llm.Event{}, ctx.Err())
			return
		}
		if a.Error != nil {
			yield(llm.Event{}, a.Error)
			return
		}
		events := a.events(s.Info().ID)
		for i, ev := range events {
			if ctx.Err() != nil {
				yield(llm.Event{}, ctx.Err())
				return
			}
			if a.Break != Whole && i >= len(events)/2 {
				yield(llm.Event{}, a.breakError(ctx))
				return
			}
			if !yield(ev, nil) {
				return
			}
		}
	}
}

func (a *Answer) breakError(ctx context.Context) error {
	switch a.Break {
	case Hang:
		<-ctx.Done()
		return ctx.Err()
	case Fail:
		return &llm.Error{Kind: llm.Overloaded, Message: "script: overloaded"}
	}
	return &llm.Error{Kind: llm.Broken, Message: "script: stream broke: " + string(a.Break)}
}

// events returns the answer as an adapter would stream it.
func (a *Answer) events(from string) []llm.Event {
	var evs []llm.Event
	done := &llm.Response{Message: llm.Message{Role: llm.Assistant}, Stop: a.Stop, Usage: a.Usage, Model: from,
		Sources: a.Found}
	add := func(p llm.Part) { done.Message.Parts = append(done.Message.Parts, p) }
	if a.Thinking != "" {
		for _, s := range pieces(a.Thinking, a.Piece) {
			evs = append(evs, llm.Event{Thinking: s})
		}
		add(llm.Part{Thinking: &llm.Thinking{Text: a.Thinking, Opaque: sign(a.Thinking), From: from}})
	}
	if a.Text != "" {
		for _, s := range pieces(a.Text, a.Piece) {
			evs = append(evs, llm.Event{Text: s})
		}
		add(llm.Text(a.Text))
	}
	for _, c := range a.Calls {
		call := &llm.ToolCall{ID: c.ID, Name: c.Name, Input: c.json()}
		evs = append(evs, llm.Event{Call: call})
		add(llm.Part{Call: call})
	}
	return append(evs, llm.Event{Done: done})
}

func (c Call) json() json.RawMessage {
	switch in := c.Input.(type) {
	case nil:
		return json.RawMessage("{}")
	case string:
		return json.RawMessage(in)
	case json.RawMessage:
		return in
	default:
		data, err := json.Marshal(in)
		if err != nil {
			panic("llmtest: input of " + c.Name + ": " + err.Error())
		}
		return data
	}
}

// A requestText is the part of a request that a script can match.
type requestText struct {
	last  string   // text of the last user message
	texts []string // every text
}

func (v requestText) all() string { return strings.Join(v.texts, "\n") }

// size returns the length of all.
func (v requestText) size() int {
	n := max(0, len(v.texts)-1)
	for _, text := range v.texts {
		n += len(text)
	}
	return n
}

func textsOf(req *llm.Request) requestText {
	v := requestText{texts: []string{req.System}}
	for _, t := range req.Tools {
		v.texts = append(v.texts, t.Name, t.Description)
	}
	if s := req.Search; s != nil {
		v.texts = append(append(append(v.texts, "search"), s.Allowed...), s.Blocked...)
	}
	for _, m := range req.Messages {
		text := texts(m.Parts)
		v.texts = append(v.texts, text)
		if m.Role == llm.User {
			v.last = text
		}
	}
	return v
}

func texts(parts []llm.Part) string {
	var out []string
	for _, p := range parts {
		switch {
		case p.Result != nil:
			out = append(out, texts(p.Result.Parts))
		case p.Call != nil:
			out = append(out, p.Call.Name+" "+string(p.Call.Input))
		case p.Text != "":
			out = append(out, p.Text)
		}
	}
	return strings.Join(out, "\n")
}

// A player records which answers were used.
type player struct {
	mu          sync.Mutex
	usedAnswers map[int]bool
	calls       int
	when        map[string]*regexp.Regexp // of answers
}

var errUsedUp = errors.New("the script has no answer left")

func (p *player) left(answers []Answer) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(answers) - len(p.usedAnswers)
}

func (p *player) next(answers []Answer, v requestText) (Answer, error) {
	p.mu.Lock()
	i := -1
	var bad error
	for n, a := range answers {
		if p.usedAnswers[n] {
			continue
		}
		re := p.when[a.When]
		if re == nil {
			var err error
			if re, err = regexp.Compile(a.When); err != nil {
				bad = fmt.Errorf("script: answer %d: when: %w", n+1, err)
				break
			}
			if p.when == nil {
				p.when = map[string]*regexp.Regexp{}
			}
			p.when[a.When] = re
		}
		if re.MatchString(v.last) {
			i = n
			break
		}
	}
	if i >= 0 {
		if p.usedAnswers == nil {
			p.usedAnswers = map[int]bool{}
		}
		p.usedAnswers[i] = true
	}
	p.mu.Unlock()
	switch {
	case bad != nil:
		return Answer{}, bad
	case i < 0:
		return Answer{}, fmt.Errorf("%w for the message %.200q", errUsedUp, v.last)
	}
	a, err := p.fill(answers[i], v)
	if err != nil {
		return a, fmt.Errorf("script: answer %d: %w", i+1, err)
	}
	return a, nil
}

// fill checks Want, applies Take, and fills in the fields that were left empty.
func (p *player) fill(a Answer, v requestText) (Answer, error) {
	var text string
	if len(a.Want)+len(a.Take) > 0 {
		text = v.all()
	}
	for _, w := range a.Want {
		re, err := regexp.Compile(w)
		if err != nil {
			return a, err
		}
		if !re.MatchString(text) {
			return a, fmt.Errorf("the request does not match %q", w)
		}
	}
	var pairs []string
	for name, expr := range a.Take {
		re, err := regexp.Compile(expr)
		if err != nil {
			return a, err
		}
		all := re.FindAllStringSubmatch(text, -1)
		if len(all) == 0 || len(all[0]) < 2 {
			return a, fmt.Errorf("take %s: nothing in the request matches a group of %q", name, expr)
		}
		pairs = append(pairs, "${"+name+"}", all[len(all)-1][1])
	}
	swap := strings.NewReplacer(pairs...)
	a.Text = swap.Replace(a.Text) + strings.Repeat(" and so on", a.Pad)
	a.Calls = slices.Clone(a.Calls)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range a.Calls {
		c := &a.Calls[i]
		p.calls++
		if c.ID == "" {
			c.ID = fmt.Sprintf("call_%d", p.calls)
		}
		if len(pairs) > 0 {
			c.Input = replaceIn(c.Input, swap)
		}
	}
	if a.Error == nil && a.Status != 0 {
		a.Error = &llm.Error{Status: a.Status, Kind: kindOf(a.Status), Message: a.Message,
			RetryAfter: time.Duration(a.Retry * float64(time.Second))}
	}
	if a.Stop == "" {
		a.Stop = llm.EndTurn
		if len(a.Calls) > 0 {
			a.Stop = llm.ToolUse
		}
	}
	if a.Usage == (llm.Usage{}) {
		out := len(a.Text) + len(a.Thinking)
		for _, c := range a.Calls {
			out += len(c.Name) + len(c.json())
		}
		a.Usage = llm.Usage{Input: v.size()/4 + 1, Output: out/4 + 1}
	}
	return a, nil
}

// replaceIn applies swap to every string in a decoded JSON value.
func replaceIn(v any, swap *strings.Replacer) any {
	switch v := v.(type) {
	case string:
		return swap.Replace(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = replaceIn(v[i], swap)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = replaceIn(v[k], swap)
		}
		return out
	case nil, bool, float64, int:
		return v
	}
	var plain any // a struct or a typed map from a Go test
	data, err := json.Marshal(v)
	if err != nil || json.Unmarshal(data, &plain) != nil {
		panic(fmt.Sprintf("llmtest: input %v is no JSON", v))
	}
	return replaceIn(plain, swap)
}

func kindOf(status int) llm.ErrorKind {
	switch {
	case status == 401 || status == 403:
		return llm.Auth
	case status == 413:
		return llm.Overflow
	case status == 429:
		return llm.RateLimit
	case status == 529 || status == 503:
		return llm.Overloaded
	case status >= 500:
		return llm.Server
	}
	return llm.Invalid
}

// sign returns the signature of thinking, which the servers check when it is sent back.
func sign(thinking string) string { return fmt.Sprintf("sig-%d-%08x", len(thinking), hash(thinking)) }

func hash(s string) (h uint32) {
	h = 2166136261
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

// pieces splits s into deltas of n characters.
func pieces(s string, n int) []string {
	if n <= 0 {
		n = 12
	}
	var out []string
	for r := []rune(s); len(r) > 0; {
		k := min(n, len(r))
		out = append(out, string(r[:k]))
		r = r[k:]
	}
	return out
}

func wait(ctx context.Context, ms int) bool {
	if ms <= 0 {
		return true
	}
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// copyRequest copies what a caller might change later. Byte slices are shared, because they must
// not be changed.
func copyRequest(r *llm.Request) *llm.Request {
	c := *r
	c.Tools = slices.Clone(r.Tools)
	c.Messages = slices.Clone(r.Messages)
	for i := range c.Messages {
		c.Messages[i].Parts = slices.Clone(c.Messages[i].Parts)
	}
	return &c
}
