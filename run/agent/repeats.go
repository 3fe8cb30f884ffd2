package agent

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool"
)

const (
	warnAfter = 5 // after this many equal calls with equal results, the model gets a warning
	stopAfter = 8 // and then the run ends
)

// repeats is the loop detector: it counts how often in a row the same calls have given the same results.
type repeats struct {
	n    int
	last [sha256.Size]byte // the hash of those calls and their results
}

// count compares the calls of an answer and their results with those before. When the warning is due, it adds that to
// the last result.
func (r *repeats) count(calls []llm.ToolCall, results []tool.Result) {
	h := sha256.New()
	add := func(data []byte) { // with its length: a, bc differs from ab, c
		h.Write(binary.AppendUvarint(nil, uint64(len(data))))
		h.Write(data)
	}
	for i, c := range calls {
		add([]byte(c.Name))
		add(c.Input)
		add(strconv.AppendBool(nil, results[i].IsError))
		for _, p := range results[i].Parts {
			add([]byte(p.Text))
			if p.Media != nil {
				add(p.Media.Data)
			}
		}
	}
	hash := [sha256.Size]byte(h.Sum(nil))
	if hash != r.last {
		r.last, r.n = hash, 1
		return
	}
	r.n++
	if r.n == warnAfter {
		res := &results[len(results)-1]
		res.Parts = append(slices.Clone(res.Parts), llm.Text(fmt.Sprintf(
			"[This is the same call with the same result for the %dth time. It will not change: do something else, or "+
				"explain what prevents you. The run stops at %d.]", r.n, stopAfter)))
	}
}
