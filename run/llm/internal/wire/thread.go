package wire

import (
	"bytes"

	"github.com/knack-agent/knack/run/llm"
)

// A thread is a request that its provider may keep, and its answer.
type thread struct {
	head  []byte // of the whole request
	turns int
	last  []byte // the JSON of the item after the turns, with a comma before it; may be empty

	answered  bool
	continued bool
	answer    string // its ID
	json      []byte // of last and the answer's turn, as the next request has them
	tokens    int    // of the whole request

	follows *thread // what the request continues; nil: it is whole
}

// answeredAt reports whether turn i of the next request may be the answer. t may be nil.
func (t *thread) answeredAt(i int) bool { return t != nil && t.answered && t.turns == i }

// next returns the head and the turns of a request. With a Thread it continues the last answer if what came before is
// unchanged. An answer can be continued once. head is that of the whole request, and same the number of turns that are
// as they were in the last one.
func (b *Body) next(k *encoding, head []byte, same int) ([]byte, []encodedTurn, error) {
	before := k.sent
	k.sent = &thread{head: head, turns: len(k.turns)}
	b.sent = k.sent
	if b.Last != nil {
		var last bytes.Buffer
		if err := writeItems(&last, []any{b.Last}); err != nil {
			return nil, nil, err
		}
		b.sent.last = last.Bytes()
	}
	if b.Thread == nil || before == nil || !before.answered || before.continued || same < before.turns ||
		len(k.turns) < before.turns+2 || !bytes.Equal(head, before.head) ||
		!bytes.Equal(k.turns[before.turns].json, before.json) {
		return head, k.turns, nil
	}
	b.sent.follows, before.continued = before, true
	var short bytes.Buffer
	err := writeJSON(&short, b.Thread(before.answer))
	return short.Bytes(), k.turns[before.turns+1:], err
}

// Continues reports whether the request was sent without what the provider keeps, and how many tokens that has.
func (b *Body) Continues() (tokens int, ok bool) {
	if b.sent == nil || b.sent.follows == nil {
		return 0, false
	}
	return b.sent.follows.tokens, true
}

// Answered notes the answer to the request, which has so many tokens. items are those of the answer in the next
// request. Without a Thread and a Last it does nothing.
func (b *Body) Answered(id string, tokens int, items []any) {
	if b.sent == nil || b.Memo == nil {
		return
	}
	b.Memo.Update(func(have any) any { // an answer to a request that is not the last one is not used
		json := bytes.NewBuffer(bytes.Clone(b.sent.last))
		if writeItems(json, items) == nil {
			b.sent.answered, b.sent.answer, b.sent.json, b.sent.tokens = true, id, json.Bytes(), tokens
		}
		return have
	})
}

// A Code is a provider's own name for a failure. It is the Err of an [llm.Error].
type Code string

func (c Code) Error() string { return string(c) }

// CodeOf returns the name that the provider gave a failure, from the details of its report; "": none.
func CodeOf(err *llm.Error) string {
	code, _ := err.Err.(Code)
	return string(code)
}
