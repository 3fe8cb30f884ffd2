package llmtest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
)

// Threads is what a Server does with the threads of the Messages format: conversations that the server keeps.
type Threads int

const (
	KeepThreads   Threads = iota // as the vendor
	NoThreads                    // refuse the field, as servers that do not know it
	IgnoreThreads                // ignore the field, as some gateways
)

// Threads sets what the server does with threads from now on, and makes it forget what it has kept.
func (s *Server) Threads(t Threads) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.threads, s.kept = t, map[string]anthropicRequest{}
}

// Wholes returns the requests that were answered, in the Messages format, each with what the server had kept of its
// conversation and without breakpoints of the cache.
func (s *Server) Wholes() []json.RawMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.wholes)
}

type anthropicThread struct {
	Type     string `json:"type"`
	Previous string `json:"previous_message_id"`
}

// nextID returns the ID of an answer. Those that are not kept have the same one.
func (f *anthropicFormat) nextID(s *Server) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.thread == nil {
		return "msg_test"
	}
	return fmt.Sprintf("msg_test_%d", len(s.kept)+1)
}

// expand adds to a request what the server has kept of its conversation. It returns why the request is refused; "": it
// is not.
func (f *anthropicFormat) expand(s *Server, r *http.Request, req *anthropicRequest) (refusal string) {
	t := req.Thread
	req.Thread = nil
	defer func() {
		f.whole = *req
		f.whole.Messages = withoutMarks(req.Messages)
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case t == nil || s.threads == IgnoreThreads:
		return ""
	case s.threads == NoThreads || !strings.Contains(r.Header.Get("Anthropic-Beta"), "message-threads-2026-08-12"):
		return "thread: Extra inputs are not permitted"
	}
	f.thread = t
	if t.Type == "create" && t.Previous == "" {
		return ""
	}
	if t.Type != "continue" || req.System != nil || req.Tools != nil {
		return "thread: " + t.Type
	}
	before, ok := s.kept[t.Previous]
	settings := func(r anthropicRequest) []any { return []any{r.Model, r.Thinking, r.OutputConfig} }
	switch {
	case !ok:
		f.code = "thread_not_found"
	case before.Messages == nil:
		f.code = "thread_already_continued"
	case !reflect.DeepEqual(settings(before), settings(*req)):
		f.code = "thread_fingerprint_mismatch"
	}
	if f.code != "" {
		return "thread: this message cannot be continued"
	}
	s.kept[t.Previous] = anthropicRequest{}
	req.System, req.Tools = before.System, before.Tools
	req.Messages = append(slices.Clip(before.Messages), req.Messages...)
	return ""
}

// keep keeps a request and its answer, if it was asked to.
func (f *anthropicFormat) keep(s *Server, a *Answer) {
	reply := anthropicMessage{Role: "assistant"}
	if a.Thinking != "" {
		reply.Content = append(reply.Content, anthropicContent{Type: "thinking", Thinking: &a.Thinking,
			Signature: s.signature(a.Thinking)})
	}
	if a.Text != "" {
		reply.Content = append(reply.Content, anthropicContent{Type: "text", Text: a.Text})
	}
	for _, c := range a.Calls {
		reply.Content = append(reply.Content, anthropicContent{Type: "tool_use", ID: c.ID, Name: c.Name, Input: c.json()})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wholes = append(s.wholes, f.whole.unmarked())
	if f.thread != nil {
		f.whole.Messages = append(f.whole.Messages, reply)
		s.kept[f.id] = f.whole
	}
}

// withoutMarks returns messages without breakpoints of the cache: only those of a request itself count.
func withoutMarks(all []anthropicMessage) []anthropicMessage {
	out := make([]anthropicMessage, len(all))
	for i, m := range all {
		out[i] = anthropicMessage{Role: m.Role, Content: slices.Clone(m.Content), Config: m.Config}
		for j := range out[i].Content {
			out[i].Content[j].Cache = nil
		}
	}
	return out
}

// unmarked returns the JSON of a request without breakpoints of the cache, which move.
func (r anthropicRequest) unmarked() json.RawMessage {
	data, _ := json.Marshal(r)
	var v any
	json.Unmarshal(data, &v) // it was just written
	var clean func(v any)
	clean = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			delete(v, "cache_control")
			for _, x := range v {
				clean(x)
			}
		case []any:
			for _, x := range v {
				clean(x)
			}
		}
	}
	clean(v)
	data, _ = json.Marshal(v)
	return data
}
