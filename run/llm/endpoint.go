package llm

import (
	"context"
	"crypto/sha256"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// An Endpoint describes one model of one server. An adapter makes a [Model] from it. Adapters do not
// change it, so it may be shared.
type Endpoint struct {
	// Info describes the model. Info.ID names it in errors, in [Response] and in [Thinking.From];
	// if it is "", the adapter sets it. A Window of 0 means that the model is unknown: all kinds of
	// attachments are then sent to it.
	Info Info

	Name    string       // the provider's name for the model
	BaseURL string       // "": the vendor's URL
	Key     string       // "": no key is sent. The key does not appear in errors or logs
	Bearer  bool         // send the key in the Authorization header, even if the vendor has a header of its own
	Header  http.Header  // additional headers, such as OpenRouter's; may be nil
	Client  *http.Client // nil: http.DefaultClient, which honours HTTPS_PROXY and NO_PROXY

	// Cloud is set for a model that another company's cloud serves in the format of the model's vendor; nil: the vendor's
	// own server, or a compatible one.
	Cloud *Cloud

	// Budget means that the model takes the amount of thinking as a number of tokens (Claude up to 4.5,
	// Gemini 2.5), not as a level.
	Budget bool

	// TaskBudget is how many tokens the model is told that it may spend on its task, where the format can say so (the
	// Messages format); 0: it is not told.
	TaskBudget int

	// Threads lets the server keep conversations, so that a request has only what is new (the Messages format). A request
	// that the server cannot continue is sent whole; one that does not know threads is asked without them.
	Threads bool

	// Efforts means that the model takes an effort for each answer, which is used with Threads.
	Efforts bool

	// Idle is how long a server may send nothing before the request fails with the kind [Broken]. 0: ten
	// minutes, because a local server sends nothing while it reads a long prompt; negative: no limit.
	Idle time.Duration

	// Limit is what all endpoints that have it may receive at the same time; nil: each answer has only a limit of its
	// own.
	Limit *Limit
}

// A Cloud is how requests reach a model that another company's cloud serves. Its functions must be safe for concurrent
// use. Package llm/cloud makes them.
type Cloud struct {
	URL string // where answers are asked for; it names the model

	// Version is the version of the Messages format, which is then in the body, where the name of the model is not.
	// Unstreamed means that the body does not ask for a stream, because URL does, and that it has the betas.
	Version    string
	Unstreamed bool

	// Authorize adds what shows who sends a request. body is the SHA-256 of its body.
	Authorize func(ctx context.Context, r *http.Request, body [sha256.Size]byte) error
}

// A Limit is how many bytes of answers, decompressed, may be received at the same time. Without it, several endless
// answers would need several times the memory of one. It is safe for concurrent use.
type Limit struct{ left atomic.Int64 }

// NewLimit returns a Limit of so many bytes.
func NewLimit(bytes int64) *Limit {
	l := new(Limit)
	l.left.Store(bytes)
	return l
}

// Take counts n bytes, which must be given back when their answer has ended; with a negative n it gives them back. It
// reports whether the limit is kept. A nil Limit is always kept.
func (l *Limit) Take(n int64) bool { return l == nil || l.left.Add(-n) >= 0 }

// The levels of Request.Effort and the corresponding numbers of thinking tokens.
var efforts = [...]struct {
	level  string
	tokens int
}{{"low", 2048}, {"medium", 8192}, {"high", 16384}, {"xhigh", 32768}, {"max", 63999}}

// EffortLevel returns the level of an effort, which is a level or a number of thinking tokens. For a
// number it returns the nearest level, and for anything else "".
func EffortLevel(effort string) string {
	best := ""
	effort = strings.TrimSpace(effort)
	n, err := strconv.Atoi(effort)
	for i, e := range efforts {
		if effort == e.level {
			return effort
		}
		if err == nil && n > 0 && (i == 0 || n > (efforts[i-1].tokens+e.tokens)/2) {
			best = e.level
		}
	}
	return best
}

// EffortTokens returns the thinking tokens of an effort, or 0 if it is neither a level nor a
// positive number.
func EffortTokens(effort string) int {
	effort = strings.TrimSpace(effort)
	for _, e := range efforts {
		if effort == e.level {
			return e.tokens
		}
	}
	if n, err := strconv.Atoi(effort); err == nil && n > 0 {
		return n
	}
	return 0
}
