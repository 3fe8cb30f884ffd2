package wire

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"slices"

	"github.com/knack-agent/knack/run/llm"
)

// A Body is a request: a JSON object with one long list, the conversation. Most of it was already
// sent in earlier requests: its JSON is kept in the Memo and sent again unchanged.
type Body struct {
	Head any    // an object: the fields before the list
	List string // the name of the list
	Tail any    // an object: the fields after the list; nil: none

	First []any         // items before the turns
	Turns []llm.Message // as [Turns] returns them
	// Items returns the items of turn i. They must depend only on this turn, on the turns before
	// it, and on whether i < Recent, for formats that treat old turns differently.
	Items  func(i int) []any
	Recent int
	// Mark is inserted at the end of the last block of the last turn, and of the turn before the last answer, where
	// the request for that answer ended; "": nowhere. Caches look for earlier requests only some blocks back.
	Mark string

	Memo  *llm.Memo // nil: nothing is kept
	Owner any       // the encoder; data that another one stored in the Memo is not used

	// Last is an item after the turns. With a Memo it stays before the answer in later requests; nil: none.
	Last any

	// Thread makes the head of a request that continues the answer with an ID, and has only the turns after it; nil: the
	// whole conversation is sent. It needs a Memo.
	Thread func(answer string) any

	sent *thread // the request, if it has a Thread or a Last and was made
}

// An encoding is the data that a Memo stores: what was sent last.
type encoding struct {
	owner            any
	head, list, tail encodedValue // list has the Body's First
	first            llm.Role     // of the first turn; the roles alternate
	recent           int          // the Body's Recent
	turns            []encodedTurn
	sent             *thread // the last request with a Thread or a Last
}

// An encodedValue is a value and its JSON.
type encodedValue struct {
	value any
	json  []byte
}

// An encodedTurn is the JSON of its items, with a comma before each.
type encodedTurn struct {
	parts []llm.Part
	json  []byte
}

// pieces returns the request as consecutive slices of bytes. They must not be changed.
func (b *Body) pieces() (out [][]byte, err error) {
	memo := b.Memo
	if memo == nil {
		memo = new(llm.Memo)
	}
	memo.Update(func(have any) any {
		k, _ := have.(*encoding)
		if k == nil || k.owner != b.Owner {
			k = &encoding{owner: b.Owner}
		}
		out, err = b.join(k)
		return k
	})
	return out, err
}

// join updates k to this request and returns its pieces.
func (b *Body) join(k *encoding) ([][]byte, error) {
	head, err := k.head.encode(b.Head)
	if err != nil {
		return nil, err
	}
	first, err := k.list.encode(b.First)
	if err != nil {
		return nil, err
	}
	tail, err := k.tail.encode(b.Tail)
	if err != nil {
		return nil, err
	}
	same, err := b.encode(k)
	if err != nil {
		return nil, err
	}
	turns, last := k.turns, len(k.turns)-1
	if b.Thread != nil || b.Last != nil {
		if head, turns, err = b.next(k, head, same); err != nil {
			return nil, err
		}
	}
	list := `"` + b.List + `":[`
	if head = head[:len(head)-1]; len(head) > 1 { // without the closing brace
		list = "," + list
	}
	out := append(make([][]byte, 0, len(turns)+10), head, []byte(list))
	empty := len(b.First) == 0
	if !empty {
		out = append(out, first[1:len(first)-1]) // without the brackets
	}
	for i, t := range turns {
		i += len(k.turns) - len(turns)
		json := t.json
		if empty && len(json) > 0 {
			json, empty = json[1:], false // the comma before the first item
		}
		if b.Mark != "" && (i == last || i == last-2) {
			end := len(json) - len("}]}")
			out = append(out, json[:end], []byte(b.Mark))
			json = json[end:]
		}
		if len(json) > 0 {
			out = append(out, json)
		}
	}
	if b.sent != nil && len(b.sent.last) > 0 {
		out = append(out, b.sent.last)
	}
	if string(tail) == "{}" || string(tail) == "null" {
		return append(out, []byte("]}\n")), nil
	}
	return append(out, []byte("],"), tail[1:], []byte("\n")), nil
}

// encode returns the JSON of v. Most requests have the same tools and system text as the last one, and
// comparing them costs a tenth of encoding them.
func (e *encodedValue) encode(v any) ([]byte, error) {
	if e.json == nil || !reflect.DeepEqual(e.value, v) {
		var buf bytes.Buffer
		if err := writeJSON(&buf, v); err != nil {
			return nil, err
		}
		e.value, e.json = v, bytes.Clone(buf.Bytes()) // without spare capacity, because it is kept for long
	}
	return e.json, nil
}

// encode updates k to the turns of this request. It keeps those before the first change, and returns their number.
func (b *Body) encode(k *encoding) (same int, err error) {
	if len(b.Turns) > 0 && b.Turns[0].Role != k.first {
		k.first, k.turns = b.Turns[0].Role, nil
	}
	n := 0
	for n < min(len(k.turns), len(b.Turns)) && (n < k.recent) == (n < b.Recent) && k.turns[n].encodes(b.Turns[n].Parts) {
		n++
	}
	k.recent, k.turns = b.Recent, slices.Delete(k.turns, n, len(k.turns))
	if n == 0 {
		k.turns = slices.Grow(k.turns, len(b.Turns)) // exactly as many as are needed
	}
	var buf bytes.Buffer
	ends := make([]int, 0, len(b.Turns)-n)
	for i := n; i < len(b.Turns); i++ {
		if k.sent.answeredAt(i) {
			buf.Write(k.sent.last)
		}
		if err := writeItems(&buf, b.Items(i)); err != nil {
			return 0, err
		}
		ends = append(ends, buf.Len())
	}
	all := bytes.Clone(buf.Bytes()) // without spare capacity, because it is kept for long
	start := 0
	for i, end := range ends {
		k.turns = append(k.turns, encodedTurn{b.Turns[n+i].Parts, all[start:end:end]})
		start = end
	}
	return n, nil
}

// encodes reports whether e was encoded from parts. It does not compare what parts point to, because
// the messages of a request with a Memo must not change.
func (e *encodedTurn) encodes(parts []llm.Part) bool {
	return len(e.parts) == len(parts) && (&e.parts[0] == &parts[0] || slices.Equal(e.parts, parts))
}

// writeItems writes values as JSON with a comma before each.
func writeItems(buf *bytes.Buffer, values []any) error {
	for _, v := range values {
		buf.WriteByte(',')
		if err := writeJSON(buf, v); err != nil {
			return err
		}
	}
	return nil
}

func writeJSON(buf *bytes.Buffer, v any) error {
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	buf.Truncate(buf.Len() - 1) // the line end
	return nil
}

// A reader reads consecutive pieces.
type reader struct {
	pieces [][]byte
	at     int // the position in the first of them
}

func (r *reader) Read(p []byte) (n int, err error) {
	for len(r.pieces) > 0 && n < len(p) {
		m := copy(p[n:], r.pieces[0][r.at:])
		n += m
		if r.at += m; r.at == len(r.pieces[0]) {
			r.pieces, r.at = r.pieces[1:], 0
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}
