package frontmatter

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// maxJSON is the maximum size in bytes that a value may reach by expanding aliases.
const maxJSON = 256 << 10

var errTooLarge = errors.New("its aliases make it too large")

// JSON converts a value to JSON: keys in the order of the file, numbers with their original
// digits if JSON allows them, and everything that JSON does not have as strings. Keys that are
// not scalars are left out.
func JSON(n *yaml.Node) (json.RawMessage, error) {
	return appendJSON(nil, n, maxJSON, 0, appendScalar)
}

// AppendTextJSON appends what JSON returns to b, but writes a number as a string if a JSON library would format it
// differently: version: 1.10 becomes "1.10".
func AppendTextJSON(b []byte, n *yaml.Node) ([]byte, error) {
	return appendJSON(b, n, len(b)+maxJSON, 0, appendText)
}

func appendJSON(b []byte, n *yaml.Node, limit, depth int, scalar func([]byte, *yaml.Node) []byte) ([]byte, error) {
	if len(b) > limit || depth > 2*maxDepth {
		return nil, errTooLarge
	}
	var err error
	switch n.Kind {
	case yaml.AliasNode:
		return appendJSON(b, n.Alias, limit, depth+1, scalar)
	case yaml.SequenceNode:
		b = append(b, '[')
		for i, c := range n.Content {
			if i > 0 {
				b = append(b, ',')
			}
			if b, err = appendJSON(b, c, limit, depth+1, scalar); err != nil {
				return nil, err
			}
		}
		return append(b, ']'), nil
	case yaml.MappingNode:
		b = append(b, '{')
		first := true
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.Kind == yaml.AliasNode {
				key = key.Alias
			}
			if key.Kind != yaml.ScalarNode {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = append(AppendString(b, key.Value), ':')
			if b, err = appendJSON(b, n.Content[i+1], limit, depth+1, scalar); err != nil {
				return nil, err
			}
		}
		return append(b, '}'), nil
	}
	return scalar(b, n), nil
}

func appendText(b []byte, n *yaml.Node) []byte {
	if tag := n.ShortTag(); tag == "!!int" || tag == "!!float" {
		f, err := strconv.ParseFloat(n.Value, 64)
		if text := strconv.FormatFloat(f, 'f', -1, 64); err != nil || text != n.Value || !json.Valid([]byte(text)) {
			return AppendString(b, n.Value)
		}
	}
	return appendScalar(b, n)
}

func appendScalar(b []byte, n *yaml.Node) []byte {
	switch n.ShortTag() {
	case "!!null":
		return append(b, "null"...)
	case "!!bool":
		return append(b, strings.ToLower(n.Value)...)
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return append(b, n.Value...)
		}
		var v any
		if n.Decode(&v) == nil {
			if f, ok := v.(float64); !ok || !math.IsInf(f, 0) && !math.IsNaN(f) {
				if text, err := json.Marshal(v); err == nil {
					return append(b, text...)
				}
			}
		}
	}
	return AppendString(b, n.Value)
}

// AppendString appends s as a JSON string. It does not escape <, > and &.
func AppendString(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(slices.Grow(b, len(s)+2), '"')
	for i, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, '\\', 'n')
		case r == '\t':
			b = append(b, '\\', 't')
		case r < ' ':
			b = append(b, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		case r == utf8.RuneError:
			b = append(b, "\ufffd"...)
		case r < utf8.RuneSelf:
			b = append(b, byte(r))
		default:
			b = append(b, s[i:i+utf8.RuneLen(r)]...)
		}
	}
	return append(b, '"')
}
