package wire

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/knack-agent/knack/run/llm"
)

// mediaPath finds paths to a part of a request in what providers say: messages.3.content.1.image,
// messages[3].content[1].image_url, "loc":["body","messages",3,"content",1]. steps are the parts of a path.
var mediaPath = sync.OnceValue(func() (r struct{ whole, steps *regexp.Regexp }) {
	r.whole = regexp.MustCompile(`\b(?:messages|input|contents)"?((?:\s*[.,\[/]\s*"?(?:\d+|[A-Za-z_]+)"?\]?)+)`)
	r.steps = regexp.MustCompile(`\d+|[A-Za-z_]+`)
	return r
})

// refused returns the hash of the media that a provider's message names by its path in the request; of several there,
// that of the last; "": it names none. pieces are the request.
func (b *Body) refused(pieces [][]byte, message string) string {
	all := media(b.Turns)
	if len(all) == 0 {
		return ""
	}
	var request map[string]any
	for _, m := range mediaPath().whole.FindAllStringSubmatch(message, 8) {
		if request == nil && json.Unmarshal(bytes.Join(pieces, nil), &request) != nil {
			return ""
		}
		at, found := request[b.List], false
		for _, step := range mediaPath().steps.FindAllString(m[1], 16) {
			below, ok := child(at, step)
			if !ok {
				break // the rest are words of the message, or of the provider's own types
			}
			at, found = below, true
		}
		for i := len(all) - 1; i >= 0 && found; i-- {
			if len(all[i].Data) > 0 && contains(at, base64.StdEncoding.EncodeToString(all[i].Data)) {
				return all[i].Hash()
			}
		}
	}
	return ""
}

// child returns what a step of a path leads to.
func child(v any, step string) (any, bool) {
	switch v := v.(type) {
	case []any:
		i, err := strconv.Atoi(step)
		if err != nil || i >= len(v) {
			return nil, false
		}
		return v[i], true
	case map[string]any:
		below, ok := v[step]
		return below, ok
	}
	return nil, false
}

// contains reports whether a value has the data, alone or in a data URL.
func contains(v any, data string) bool {
	switch v := v.(type) {
	case string:
		return strings.HasSuffix(v, data)
	case []any:
		for _, x := range v {
			if contains(x, data) {
				return true
			}
		}
	case map[string]any:
		for _, x := range v {
			if contains(x, data) {
				return true
			}
		}
	}
	return false
}

// media returns the images and documents of a conversation, in order.
func media(turns []llm.Message) (all []*llm.Media) {
	var add func(parts []llm.Part)
	add = func(parts []llm.Part) {
		for _, p := range parts {
			if p.Media != nil {
				all = append(all, p.Media)
			}
			if p.Result != nil {
				add(p.Result.Parts)
			}
		}
	}
	for _, m := range turns {
		add(m.Parts)
	}
	return all
}
