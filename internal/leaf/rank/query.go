package rank

import (
	"strings"
	"sync"
	"unicode/utf8"
)

// Limits of a query.
const (
	maxQuery   = 8 << 10 // in bytes
	maxTerms   = 256
	maxSpelled = 8 // maximum number of words that may be misspelt
)

// Weights of words in a query.
const (
	inCode   = .12 // a word in fenced code, whose names say little about the task
	particle = .3  // a pair of characters that is mostly grammatical
	joined   = .5  // two words written as one
	alias    = .6
)

// A queryTerm is a term of a query.
type queryTerm struct {
	hash   uint32
	weight float64
	word   string // as written; "" if it is not checked for misspelling
}

// queryTerms returns the terms of a query, each once.
func queryTerms(query string) []queryTerm {
	if len(query) > maxQuery {
		cut := maxQuery
		for cut > 0 && !utf8.RuneStart(query[cut]) {
			cut--
		}
		query = query[:cut]
	}
	q := queryReader{text: []byte(query), at: map[uint32]int{}}
	q.read()
	return q.terms
}

type queryReader struct {
	text  []byte
	terms []queryTerm
	at    map[uint32]int // index of each term
	last  string         // the previous word; "" if something else is between
}

func (q *queryReader) read() {
	code, sentence := false, true // sentence: at the start of a sentence
	opened := 0                   // start of the text after an opening fence
	spelled := 0
	for at := 0; ; {
		r, ok := nextRun(q.text, at)
		if !ok {
			return
		}
		between := string(q.text[at:r.start])
		if strings.Count(between, "```")%2 == 1 {
			code, opened = !code, r.start
		}
		sentence = at == 0 || strings.ContainsAny(between, ".!?:\n")
		at = r.end
		word := string(q.text[r.start:r.end])
		w := 1.0
		if code {
			w = inCode
		}
		if r.pairs {
			q.last = ""
			pairsOf(q.text[r.start:r.end], func(pair []byte) {
				t := string(pair)
				if grammatical(t) {
					q.once(t, w*particle)
				} else {
					q.once(t, w)
				}
			})
			continue
		}
		// "Go" is the language if it does not begin a sentence; "go" is, as the name after a
		// fence.
		if word == "Go" && !sentence && !code || word == "go" && code && r.start == opened {
			q.add("golang", 1.6, "")
		}
		first := ""
		terms(word, func(t string) {
			if first == "" {
				first = t
			}
			spell := ""
			if !code && spelled < maxSpelled && mayBeMisspelt(word) {
				spell = strings.ToLower(word)
				spelled++
			}
			q.add(t, w, spell)
		})
		small := lower(word)
		for _, a := range aliases()[small] {
			q.once(stem(a), w*alias)
		}
		if q.last != "" && !code && (between == " " || between == "-") {
			q.once(stem(q.last+small), w*joined)
		}
		q.last = small
	}
}

func mayBeMisspelt(word string) bool {
	if len(word) < 5 || len(word) > 20 {
		return false
	}
	for i := 0; i < len(word); i++ {
		if !small(word[i]) && !(i == 0 && upper(word[i])) {
			return false
		}
	}
	return true
}

// add adds to the weight of a word.
func (q *queryReader) add(t string, weight float64, spell string) {
	h := hash(t)
	if i, ok := q.at[h]; ok {
		q.terms[i].weight += weight
	} else if len(q.terms) < maxTerms {
		q.at[h] = len(q.terms)
		q.terms = append(q.terms, queryTerm{h, weight, spell})
	}
}

// once is like add, but repeated words count only once.
func (q *queryReader) once(t string, weight float64) {
	if i, ok := q.at[hash(t)]; ok {
		q.terms[i].weight = max(q.terms[i].weight, weight)
		return
	}
	q.add(t, weight, "")
}

// grammatical reports whether a pair of characters is likely to be grammatical: Japanese
// endings, and Chinese words that occur in any sentence.
func grammatical(pair string) bool {
	hiragana := true
	for _, r := range pair {
		if strings.ContainsRune("的了是我你他她它们這这那请請帮幫在和与就都也要会把给吗吧呢怎么什一个有不可以用做为", r) {
			return true
		}
		hiragana = hiragana && 0x3040 <= r && r <= 0x309f
	}
	return hiragana
}

// aliases maps common abbreviations to what they stand for.
var aliases = sync.OnceValue(func() map[string][]string {
	return map[string][]string{
		"js": {"javascript"}, "javascript": {"js"},
		"ts": {"typescript"}, "typescript": {"ts"},
		"py":  {"python"},
		"k8s": {"kubernetes"}, "kubernetes": {"k8s"},
		"golang":   {"go"},
		"postgres": {"postgresql"}, "postgresql": {"postgres"},
		"db": {"database"}, "databases": {"db"}, "database": {"db"},
		"repo": {"repository"}, "repository": {"repo"},
		"docs": {"documentation"}, "documentation": {"docs"},
		"config": {"configuration"}, "configuration": {"config"},
		"env":  {"environment"},
		"auth": {"authentication"}, "authentication": {"auth"},
		"a11y": {"accessibility"}, "accessibility": {"a11y"},
		"i18n": {"internationalization"}, "internationalization": {"i18n"},
		"l10n": {"localization"}, "localization": {"l10n"},
		"powerpoint": {"pptx"}, "pptx": {"powerpoint"},
		"excel": {"xlsx"}, "xlsx": {"excel"},
		"docx": {"word"},
	}
})
