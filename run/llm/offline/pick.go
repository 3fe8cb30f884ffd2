package offline

import (
	"html"
	"math"
	"slices"
	"strings"
	"unicode"

	"github.com/knack-agent/knack/run/llm"
)

// An entry is one skill of the listing.
type entry struct{ name, text string }

// listing returns the skills that a request lists: in the description of the Skill tool, in the
// system text, and in later announcements.
func listing(req *llm.Request) []entry {
	var out []entry
	seen := map[string]bool{}
	add := func(text string) {
		for {
			_, rest, ok := strings.Cut(text, "<available_skills>")
			if !ok {
				return
			}
			var list string
			list, text, _ = strings.Cut(rest, "</available_skills>")
			for _, e := range entries(list) {
				if !seen[e.name] {
					seen[e.name] = true
					out = append(out, e)
				}
			}
		}
	}
	for _, t := range req.Tools {
		add(t.Description)
	}
	add(req.System)
	for _, m := range req.Messages {
		for _, p := range m.Parts {
			if m.Role == llm.User {
				add(p.Text)
			}
		}
	}
	return out
}

// entries parses lines of the form "- name: text", and the elements used in index mode.
func entries(list string) []entry {
	var out []entry
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "- "); ok {
			name, text, _ := strings.Cut(rest, ": ") // a name may contain a colon, but no blank after it
			out = append(out, entry{strings.TrimSuffix(strings.TrimSpace(name), ":"), text})
		}
	}
	for rest := list; ; {
		_, after, ok := strings.Cut(rest, "<skill>")
		if !ok {
			return out
		}
		var one string
		one, rest, _ = strings.Cut(after, "</skill>")
		if name := element(one, "name"); name != "" {
			out = append(out, entry{name, element(one, "description")})
		}
	}
}

func element(s, name string) string {
	_, rest, ok := strings.Cut(s, "<"+name+">")
	if !ok {
		return ""
	}
	text, _, _ := strings.Cut(rest, "</"+name+">")
	return strings.TrimSpace(html.UnescapeString(text))
}

const (
	k1, b = 1.2, 0.75 // the usual constants of BM25

	// enough is the share of the prompt's weight that an entry must match. A word has more weight
	// if fewer entries contain it, and most if none does.
	enough = 0.28
)

// pick returns the skill that matches a prompt best, and whether it matches well enough. The name
// is "" if nothing matches at all. A skill whose name is in the prompt always matches well enough.
func pick(skills []entry, prompt string) (name string, fits bool) {
	for _, e := range skills {
		if namesSkill(prompt, e.name) {
			return e.name, true
		}
	}
	query := terms(prompt)
	slices.Sort(query)
	query = slices.Compact(query)
	docs := make([]map[string]int, len(skills))
	lengths := make([]float64, len(skills))
	df := map[string]int{}
	total := 0.0
	for i, e := range skills {
		docs[i] = map[string]int{}
		for _, t := range append(terms(e.name), terms(e.name+" "+e.text)...) { // the name counts twice
			if docs[i][t]++; docs[i][t] == 1 {
				df[t]++
			}
			lengths[i]++
		}
		total += lengths[i]
	}
	n := float64(len(skills))
	idf := func(t string) float64 { return math.Log(1 + (n-float64(df[t])+0.5)/(float64(df[t])+0.5)) }
	weight := 0.0
	for _, t := range query {
		w := idf(t)
		if df[t] == 0 && isCJK(t) { // most pairs of characters are not words
			w /= 3
		}
		weight += w
	}
	best, bestShare := 0.0, 0.0
	for i := range skills {
		score, share := 0.0, 0.0
		for _, t := range query {
			if f := float64(docs[i][t]); f > 0 {
				score += idf(t) * f * (k1 + 1) / (f + k1*(1-b+b*lengths[i]/(total/n)))
				share += idf(t)
			}
		}
		if score > best {
			best, bestShare, name = score, share/weight, skills[i].name
		}
	}
	return name, name != "" && bestShare >= enough
}

// namesSkill reports whether a prompt contains a skill's name as a separate word. A name that is one
// ordinary word must be written as /name.
func namesSkill(prompt, name string) bool {
	p := " " + strings.ToLower(strings.Join(strings.FieldsFunc(prompt, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune(",;!?\"'`()", r)
	}), " ")) + " "
	name = strings.ToLower(name)
	if isCJK(name) {
		return strings.Contains(p, name) // words are not separated by blanks
	}
	return strings.Contains(p, " /"+name+" ") || strings.ContainsAny(name, "-_:.") && strings.Contains(p, " "+name+" ")
}

var cjk = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul}

func isCJK(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return unicode.In(r, cjk...) })
}

// terms returns the significant words of a text, in lower case and without common endings. Chinese,
// Japanese and Korean text is split into pairs of characters.
func terms(s string) []string {
	var out []string
	var word, han []rune
	flush := func() {
		if w := stem(string(word)); w != "" {
			out = append(out, w)
		}
		word = word[:0]
		if len(han) == 1 {
			out = append(out, string(han))
		}
		for i := 0; i+1 < len(han); i++ {
			out = append(out, string(han[i:i+2]))
		}
		han = han[:0]
	}
	for _, r := range s {
		switch {
		case unicode.In(r, cjk...):
			if len(word) > 0 {
				flush()
			}
			han = append(han, r)
		case unicode.IsLetter(r) || unicode.IsDigit(r):
			if len(han) > 0 {
				flush()
			}
			word = append(word, unicode.ToLower(r))
		default:
			flush()
		}
	}
	flush()
	return out
}

// stop contains words that do not tell what a skill is for.
const stop = " a an and any are as at be by can could do does for from give have how i if in into is it its let " +
	"make me my need of on or our out please run should skill skills so some that the their them then there these this " +
	"to up us use used using want we what when where which will with would you your "

func stem(w string) string {
	if w == "" || strings.Contains(stop, " "+w+" ") {
		return ""
	}
	for _, end := range []string{"ing", "ed", "es", "s"} {
		if cut, ok := strings.CutSuffix(w, end); ok && len(cut) >= 3 && !strings.HasSuffix(cut, "s") {
			return strings.TrimSuffix(cut, "e")
		}
	}
	return strings.TrimSuffix(w, "e")
}

// arguments returns the words of a prompt that look like values: quoted ones, and those that
// contain a digit, dot, slash, colon or equals sign. After /name, all words are arguments.
func arguments(prompt, name string) string {
	if rest, ok := strings.CutPrefix(strings.TrimSpace(prompt), "/"+name); ok &&
		(rest == "" || unicode.IsSpace(rune(rest[0]))) {
		return strings.TrimSpace(rest)
	}
	var out []string
	for rest := prompt; rest != ""; {
		i := strings.IndexFunc(rest, func(r rune) bool { return !unicode.IsSpace(r) })
		if i < 0 {
			break
		}
		rest = rest[i:]
		if c := rest[0]; c == '"' || c == '\'' || c == '`' {
			if end := strings.IndexByte(rest[1:], c); end > 0 {
				out = append(out, quote(rest[1:end+1]))
				rest = rest[end+2:]
				continue
			}
		}
		end := strings.IndexFunc(rest, unicode.IsSpace)
		if end < 0 {
			end = len(rest)
		}
		w := strings.Trim(rest[:end], ".,;:!?()\"'`")
		if rest = rest[end:]; w == name || !strings.ContainsAny(w, "0123456789./:=_~") {
			continue
		}
		if strings.ContainsAny(w, `'"\`) {
			w = quote(w)
		}
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

func names(skills []entry) string {
	var out []string
	for i, e := range skills {
		if i == 20 {
			out = append(out, "…")
			break
		}
		out = append(out, e.name)
	}
	return strings.Join(out, ", ")
}
