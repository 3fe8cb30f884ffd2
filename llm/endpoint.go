package llm

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// An Endpoint is one model behind one address: what the adapters are made of.
// It is not changed by them and may be shared.
type Endpoint struct {
	// Info describes the model. Info.ID names it in errors, in [Response] and in
	// [Thinking.From]; "" is filled in by the adapter. A model that is not known
	// has no Window, and then is sent whatever the caller attaches.
	Info Info

	Name    string       // as the provider calls the model
	BaseURL string       // "": the vendor's
	Key     string       // "": no key is sent. It appears in no error and in no log
	Bearer  bool         // the key is a token for the Authorization header, where a vendor has two ways
	Header  http.Header  // further headers, such as OpenRouter's; may be nil
	Client  *http.Client // nil: http.DefaultClient, which honours HTTPS_PROXY and NO_PROXY

	// Budget: how much to think is sent as a number of tokens (Claude up to 4.5,
	// Gemini 2.5). Otherwise it is sent as a level.
	Budget bool

	// Idle is how long a stream may be silent before it counts as [Broken].
	// 0: ten minutes (a local server reads a long prompt in silence); negative:
	// for ever.
	Idle time.Duration
}

// The levels of Request.Effort and the thinking tokens that stand for each.
var efforts = [...]struct {
	level  string
	tokens int
}{{"low", 2048}, {"medium", 8192}, {"high", 16384}, {"xhigh", 32768}, {"max", 63999}}

// EffortLevel returns the level of an effort that may be a number of thinking
// tokens: the nearest one. It returns "" for "" and for what is neither.
func EffortLevel(effort string) string {
	best := ""
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

// EffortTokens returns the thinking tokens of an effort, or 0 for "" and for
// what is neither a level nor a positive number.
func EffortTokens(effort string) int {
	for _, e := range efforts {
		if effort == e.level {
			return e.tokens
		}
	}
	if n, err := strconv.Atoi(strings.TrimSpace(effort)); err == nil && n > 0 {
		return n
	}
	return 0
}
