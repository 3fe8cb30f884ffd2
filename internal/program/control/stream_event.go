package control

import (
	"encoding/json"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/run/llm"
)

// An answerStream converts one streamed answer to events of the API: text and thinking as they arrive,
// each call when it is complete.
type answerStream struct {
	id    string // ID of the message
	model string
	open  bool      // message_start was sent
	index int       // index of the next block
	block blockType // the type of the open block; "": none is open
}

// stream writes the parts of an answer, if partial messages are enabled.
func (o *Messages) stream(log string, parent *string, e engine.Event) {
	if e.Request != nil {
		o.streams[log] = &answerStream{id: messageID(o.headOf(log, 0)), model: o.modelName(e.Request.Model)}
	}
	a := o.streams[log]
	if a == nil || !o.Partial {
		return
	}
	send := func(ev StreamEvent) {
		o.out.write(StreamMessage{Type: typeStream, Event: ev, Parent: parent, Head: o.headOf(log, 0)})
	}
	switch {
	case e.Text != "":
		a.piece(send, blockText, e.Text)
	case e.Thinking != "":
		a.piece(send, blockThinking, e.Thinking)
	case e.Retry != nil && a.open: // what was sent is invalid
		a.close(send)
		send(StreamEvent{Type: "message_stop"})
	case e.Entry != nil && e.Entry.Answer != nil:
		a.start(send)
		a.close(send)
		for _, p := range e.Entry.Answer.Message.Parts {
			if p.Call != nil {
				a.call(send, o.block(p))
			}
		}
		m := o.response(log, e.Entry)
		send(StreamEvent{Type: "message_delta", Delta: &Delta{Stop: m.Stop}, Usage: &m.Usage})
		send(StreamEvent{Type: "message_stop"})
	}
}

func (a *answerStream) start(send func(StreamEvent)) {
	if a.open {
		return
	}
	a.open = true
	send(StreamEvent{Type: "message_start", Message: &ModelResponse{ID: a.id, Type: "message", Role: llm.Assistant,
		Model: a.model, Content: []Block{}}})
}

// piece sends a part of text or thinking. If the previous part was of the other kind, it first begins
// a new block.
func (a *answerStream) piece(send func(StreamEvent), kind blockType, text string) {
	a.start(send)
	empty, at := "", a.index
	if a.block != kind {
		a.close(send)
		at = a.index
		b := Block{Type: kind, Text: &empty}
		if kind == blockThinking {
			b = Block{Type: kind, Thinking: &empty, Signature: &empty}
		}
		send(StreamEvent{Type: "content_block_start", Index: &at, Block: &b})
		a.block = kind
	}
	d := Delta{Type: "text_delta", Text: &text}
	if kind == blockThinking {
		d = Delta{Type: "thinking_delta", Thinking: &text}
	}
	send(StreamEvent{Type: "content_block_delta", Index: &at, Delta: &d})
}

// close closes the open block.
func (a *answerStream) close(send func(StreamEvent)) {
	if a.block == "" {
		return
	}
	at := a.index
	send(StreamEvent{Type: "content_block_stop", Index: &at})
	a.block = ""
	a.index++
}

// call sends a complete call.
func (a *answerStream) call(send func(StreamEvent), b Block) {
	at, input := a.index, string(b.Input)
	b.Input = json.RawMessage("{}")
	send(StreamEvent{Type: "content_block_start", Index: &at, Block: &b})
	send(StreamEvent{Type: "content_block_delta", Index: &at, Delta: &Delta{Type: "input_json_delta", JSON: &input}})
	send(StreamEvent{Type: "content_block_stop", Index: &at})
	a.index++
}
