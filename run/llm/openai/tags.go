package openai

import "strings"

// tagged finds reasoning in tags at the start of an answer's text, as models write it whose server does not know them.
type tagged struct {
	open  string // the tag that began it; "": none has
	state uint8  // atStart … inText
	held  string // what was received and may be a part of a tag
}

const (
	atStart uint8 = iota
	inThinking
	afterThinking // blanks before the text
	inText
)

// The tags of reasoning. What follows a tag in another place is text.
var openings = [...]string{"<think>", "<thinking>", "<thought>", "<reasoning>", "<seed:think>", "[THINK]"}

// closing returns the tag that ends what open began.
func closing(open string) string { return open[:1] + "/" + open[1:] }

// any reports whether anything is held.
func (t *tagged) any() bool { return t.held != "" }

// add takes a piece of the text and returns the reasoning and the text that are certain.
func (t *tagged) add(s string) (thinking, text string) {
	s, t.held = t.held+s, ""
	if t.state == atStart {
		begin := strings.TrimLeft(s, " \t\r\n")
		partial := begin == ""
		for _, tag := range openings {
			if strings.HasPrefix(begin, tag) {
				t.open, t.state, s = tag, inThinking, strings.TrimLeft(begin[len(tag):], "\r\n")
			}
			partial = partial || strings.HasPrefix(tag, begin)
		}
		switch {
		case t.state == atStart && partial:
			t.held = s
			return "", ""
		case t.state == atStart:
			t.state = inText
		}
	}
	if t.state == inThinking {
		end := closing(t.open)
		before, after, closed := strings.Cut(s, end)
		if !closed {
			n := len(s) - overlap(s, end)
			t.held = s[n:]
			return s[:n], ""
		}
		thinking, s, t.state = before, after, afterThinking
	}
	if t.state == afterThinking {
		if s = strings.TrimLeft(s, " \t\r\n"); s != "" {
			t.state = inText
		}
	}
	return thinking, s
}

// flush returns what is held: the answer has ended.
func (t *tagged) flush() (thinking, text string) {
	s := t.held
	t.held = ""
	if t.state == inThinking {
		return s, ""
	}
	return "", s
}

// overlap returns how many bytes at the end of s may be the beginning of tag.
func overlap(s, tag string) int {
	for n := min(len(s), len(tag)-1); n > 0; n-- {
		if strings.HasSuffix(s, tag[:n]) {
			return n
		}
	}
	return 0
}

// beforeTag splits a text whose reasoning has only the closing tag: the prompt that the server made ended with the
// opening one. A tag in quotes is text.
func beforeTag(text string) (thinking, rest string) {
	before, after, ok := strings.Cut(text, "</think>")
	if !ok || strings.HasSuffix(before, "`") || strings.HasSuffix(before, `"`) || strings.Contains(before, "<think>") {
		return "", text
	}
	return strings.TrimSpace(before), strings.TrimLeft(after, " \t\r\n")
}
