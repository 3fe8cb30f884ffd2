package wire

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"

	"github.com/knack-agent/knack/llm"
)

// A Body is a request: a JSON object with one long list, the conversation. Most of the conversation
// was already sent in earlier requests: its JSON is kept in the Memo and sent again unchanged.
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
	Mark   string // inserted at the end of the last block of the last turn; "": none

	Memo  *llm.Memo // nil: nothing is kept
	Owner any       // the encoder; data that another one stored in the Memo is not used
}

// encodedTurns is the data that a Memo stores.
type encodedTurns struct {
	owner  any
	first  llm.Role // of the first turn; the roles alternate
	recent int      // the Body's Recent
	turns  []encodedTurn
}

// An encodedTurn is the JSON of its items, with a comma before each.
type encodedTurn struct {
	parts []llm.Part
	json  []byte
}

// pieces returns the request as consecutive slices of bytes. They must not be changed.
func (b *Body) pieces() (out [][]byte, err error) {
	var head, first, tail bytes.Buffer
	if err := writeJSON(&head, b.Head); err != nil {
		return nil, err
	}
	if head.Truncate(head.Len() - 1); head.Len() > 1 { // without the closing brace
		head.WriteByte(',')
	}
	head.WriteString(`"` + b.List + `":[`)
	if err := writeItems(&first, b.First); err != nil {
		return nil, err
	}
	out = append(make([][]byte, 0, len(b.Turns)+5), head.Bytes())
	add := func(json []byte) {
		if len(out) == 1 && len(json) > 0 {
			json = json[1:] // the comma before the first item
		}
		if len(json) > 0 {
			out = append(out, json)
		}
	}
	add(first.Bytes())
	memo := b.Memo
	if memo == nil {
		memo = new(llm.Memo)
	}
	memo.Update(func(have any) any {
		k, _ := have.(*encodedTurns)
		if k == nil || k.owner != b.Owner {
			k = &encodedTurns{owner: b.Owner}
		}
		if err = b.encode(k); err == nil {
			for _, t := range k.turns {
				add(t.json)
			}
		}
		return k
	})
	if err != nil {
		return nil, err
	}
	if n := len(out) - 1; b.Mark != "" && len(b.Turns) > 0 {
		last := out[n]
		end := len(last) - len("}]}")
		out = append(out[:n], last[:end], []byte(b.Mark), last[end:])
	}
	if err := writeJSON(&tail, b.Tail); err != nil {
		return nil, err
	}
	end := "]}\n"
	if more := tail.String(); more != "{}" && more != "null" {
		end = "]," + more[1:] + "\n"
	}
	return append(out, []byte(end)), nil
}

// encode updates k to the turns of this request. It keeps those before the first change.
func (b *Body) encode(k *encodedTurns) error {
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
		if err := writeItems(&buf, b.Items(i)); err != nil {
			return err
		}
		ends = append(ends, buf.Len())
	}
	all := bytes.Clone(buf.Bytes()) // without spare capacity, because it is kept for long
	start := 0
	for i, end := range ends {
		k.turns = append(k.turns, encodedTurn{b.Turns[n+i].Parts, all[start:end:end]})
		start = end
	}
	return nil
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
