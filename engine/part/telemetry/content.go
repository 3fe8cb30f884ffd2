package telemetry

import (
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/secrets"
)

// maxContent is how much of one text is sent, in bytes.
const maxContent = 32 << 10

// hidden stands in the place of a secret.
const hidden = "[secret]"

// masked returns a text of the conversation for a collector: without what the session has read from secrets, and
// without what looks like a key.
func (t *telemetry) masked(text string) string {
	texts, keys := t.conv.Reads().Secrets()
	for _, word := range secrets.Carried(text, slices.Concat(texts, keys)) {
		text = strings.ReplaceAll(text, word, hidden)
	}
	for range 100 {
		key := secrets.Key(text)
		if key == "" { // only now is it cut: half a secret is not found
			return strings.ToValidUTF8(text[:min(len(text), maxContent)], "")
		}
		text = strings.ReplaceAll(text, key, hidden)
	}
	return hidden
}
