package textedit

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxFuzzy is the maximum size of a text that is matched loosely, in bytes: loose matching
// takes nine bytes of memory for each byte of text.
const maxFuzzy = 32 << 20

// fold maps characters that people and models confuse to a common form.
func fold(r rune) rune {
	switch r {
	case '‘', '’', '‚', '‛', '′':
		return '\''
	case '“', '”', '„', '‟':
		return '"'
	case '‐', '‑', '‒', '–', '—', '―', '−':
		return '-'
	}
	if r > unicode.MaxASCII && unicode.Is(unicode.Zs, r) {
		return ' '
	}
	return r
}

// A folded text has a form in which insignificant differences are removed.
type folded struct {
	text string
	from []int // origin of each byte, and of the end; -1 inside a character
}

func foldLines(text string) folded {
	f := folded{from: make([]int, 0, len(text)+1)}
	out := make([]byte, 0, len(text))
	put := func(r rune, from int) {
		f.from = append(f.from, from)
		out = utf8.AppendRune(out, r)
		for len(f.from) < len(out) {
			f.from = append(f.from, -1)
		}
	}
	at := 0
	for line := range strings.Lines(text) {
		body, ended := strings.CutSuffix(line, "\n")
		body = strings.TrimRightFunc(body, unicode.IsSpace)
		for i := 0; i < len(body); {
			if body[i] < utf8.RuneSelf && (i+1 == len(body) || body[i+1] < utf8.RuneSelf) {
				put(rune(body[i]), at+i)
				i++
				continue
			}
			// A character with its combining marks.
			size := norm.NFKC.NextBoundaryInString(body[i:], true)
			from := at + i
			// (Normalisation would turn a double prime into two primes.)
			for seg := norm.NFKC.String(strings.ReplaceAll(body[i:i+size], "″", `"`)); len(seg) > 0; from = -1 {
				r, width := utf8.DecodeRuneInString(seg)
				if r == utf8.RuneError && width == 1 {
					// An invalid byte only equals itself.
					f.from = append(f.from, from)
					out = append(out, seg[0])
				} else {
					put(fold(r), from)
				}
				seg = seg[width:]
			}
			i += size
		}
		if ended {
			// Blanks before a line break belong to the line, not to the break.
			f.from = append(f.from, at+len(body))
			out = append(out, '\n')
		}
		at += len(line)
	}
	f.from = append(f.from, at)
	f.text = string(out)
	if !strings.HasSuffix(text, "\n") {
		f.from[len(f.from)-1] = len(strings.TrimRightFunc(text, unicode.IsSpace))
		if i := strings.LastIndexByte(text, '\n'); f.from[len(f.from)-1] <= i {
			f.from[len(f.from)-1] = i + 1
		}
	}
	return f
}

// fuzzy finds old by loose matching.
func (n *normalised) fuzzy(old string) []span {
	if len(n.text) > maxFuzzy {
		return nil
	}
	needle := foldLines(old).text
	if strings.TrimSpace(needle) == "" {
		return nil
	}
	// Blanks at the very end of old stand for the end of a line.
	last := old[strings.LastIndexByte(old, '\n')+1:]
	toEnd := last != "" && strings.TrimRightFunc(last, unicode.IsSpace) != last
	hay := foldLines(n.text)
	var out []span
	for at := 0; ; {
		i := strings.Index(hay.text[at:], needle)
		if i < 0 {
			return out
		}
		start, end := at+i, at+i+len(needle)
		at = start + 1
		if hay.from[start] < 0 || hay.from[end] < 0 ||
			toEnd && end < len(hay.text) && hay.text[end] != '\n' {
			continue
		}
		out = append(out, span{hay.from[start], hay.from[end]})
		at = end
	}
}

// notFound returns the message that an edit's old text was not found, with the place that is
// most similar.
func (n *normalised) notFound(name string, e Edit) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s was not found. It must match the file exactly, including whitespace and line breaks.", name)
	if n.text == "" {
		b.WriteString(" The file is empty: use write.")
		return b.String()
	}
	if strings.TrimSpace(e.New) != "" {
		if i := strings.Index(n.text, e.New); i >= 0 && strings.Count(n.text, e.New) == 1 {
			fmt.Fprintf(&b, " Its newText is already at line %d: perhaps the edit was made before.", n.line(i))
			return b.String()
		}
	}
	at, want, have := n.closest(e.Old)
	if at == 0 {
		return b.String()
	}
	fmt.Fprintf(&b, " The closest place is line %d:\n  oldText has: %s\n  the file has: %s", at, show(want), show(have))
	return b.String()
}

func show(line string) string {
	const limit = 200
	if len(line) > limit {
		cut := limit
		for !utf8.RuneStart(line[cut]) {
			cut--
		}
		line = line[:cut] + "…"
	}
	return fmt.Sprintf("%q", line)
}

// closest finds the part of the text that is most similar to old. It returns the number of the
// first line that differs, and the two versions of that line; num is 0 if nothing is similar.
func (n *normalised) closest(old string) (num int, want, have string) {
	const work = 1 << 26 // maximum number of bytes compared, about a second
	olds := strings.Split(strings.TrimSuffix(old, "\n"), "\n")
	texts := strings.Split(n.text, "\n")
	if len(olds)*len(n.text) > work {
		olds = olds[:max(1, work/len(n.text))]
	}
	trimmed := make([]string, len(texts))
	for i, l := range texts {
		trimmed[i] = strings.TrimSpace(l)
	}
	best, at := 0.0, -1
	for i := range texts {
		score := 0.0
		for j, o := range olds {
			if i+j >= len(texts) {
				break
			}
			switch o := strings.TrimSpace(o); {
			case o == "" || trimmed[i+j] == "":
			case o == trimmed[i+j]:
				score += 1
			case j == 0 || score > 0:
				if s := likeness(o, trimmed[i+j]); s > 0.5 {
					score += s
				}
			}
		}
		if score > best {
			best, at = score, i
		}
	}
	if at < 0 {
		return 0, "", ""
	}
	for j, o := range olds {
		if at+j >= len(texts) {
			return at + j, o, "" // the text ends before old does
		}
		if t := texts[at+j]; t != o && !(j == len(olds)-1 && strings.HasPrefix(t, o)) &&
			!(j == 0 && strings.HasSuffix(t, o)) {
			return at + j + 1, o, t
		}
	}
	return at + 1, olds[0], texts[at]
}

// likeness returns the share of neighbouring byte pairs that two lines have in common, from 0
// to 1.
func likeness(a, b string) float64 {
	if len(a) < 2 || len(b) < 2 || len(a) > 4*len(b) || len(b) > 4*len(a) {
		return 0
	}
	a, b = a[:min(len(a), 500)], b[:min(len(b), 500)]
	var seen [1 << 10]uint16
	key := func(s string, i int) int { return (int(s[i])*31 + int(s[i+1])) & (len(seen) - 1) }
	for i := range len(a) - 1 {
		seen[key(a, i)]++
	}
	shared := 0
	for i := range len(b) - 1 {
		if k := key(b, i); seen[k] > 0 {
			seen[k]--
			shared++
		}
	}
	return 2 * float64(shared) / float64(len(a)+len(b)-2)
}
