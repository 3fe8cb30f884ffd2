// Package jsonc reads JSON with comments and trailing commas, as people write it into settings files.
package jsonc

// Plain returns data with its comments (// and /* */) and trailing commas replaced by spaces, so that offsets and lines
// stay the same. JSON without them is returned as it is. A comment that is not closed stays, and is then an error for
// whoever parses the result. Plain does not change data.
func Plain(data []byte) []byte {
	out := data
	blank := func(from, to int) {
		if &out[0] == &data[0] {
			out = append([]byte(nil), data...)
		}
		for i := from; i < to; i++ {
			if c := out[i]; c != '\n' && c != '\r' {
				out[i] = ' '
			}
		}
	}
	comma, value := -1, false // the offset of a comma that nothing follows yet; whether a value comes before it
	for i := 0; i < len(data); i++ {
		switch c := data[i]; c {
		case ' ', '\t', '\r', '\n':
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
			comma, value = -1, true
		case '/':
			end := commentEnd(data, i)
			if end < 0 {
				return out
			}
			blank(i, end)
			i = end - 1
		case ',':
			if comma = i; !value {
				comma = -1 // as in [,]: that is a mistake
			}
			value = false
		case '}', ']':
			if comma >= 0 {
				blank(comma, comma+1)
			}
			comma, value = -1, true
		default:
			comma, value = -1, c != '{' && c != '[' && c != ':'
		}
	}
	return out
}

// commentEnd returns the offset after the comment that begins at from; -1: none does, or it is not closed.
func commentEnd(data []byte, from int) int {
	if from+1 >= len(data) {
		return -1
	}
	switch data[from+1] {
	case '/':
		for i := from; i < len(data); i++ {
			if data[i] == '\n' {
				return i
			}
		}
		return len(data)
	case '*':
		for i := from + 2; i+1 < len(data); i++ {
			if data[i] == '*' && data[i+1] == '/' {
				return i + 2
			}
		}
	}
	return -1
}
