package rank

import "strings"

// stem removes the endings of English words, following M. F. Porter, "An algorithm for suffix
// stripping", 1980. Words with letters other than a to z are unchanged.
func stem(w string) string {
	if len(w) < 3 {
		return w
	}
	for i := 0; i < len(w); i++ {
		if !small(w[i]) {
			return w
		}
	}
	// Step 1a.
	switch {
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "ies"):
		w = w[:len(w)-2]
	case strings.HasSuffix(w, "ss"):
	case strings.HasSuffix(w, "s"):
		w = w[:len(w)-1]
	}
	// Step 1b.
	if strings.HasSuffix(w, "eed") {
		if measure(w[:len(w)-3]) > 0 {
			w = w[:len(w)-1]
		}
	} else {
		cut := ""
		if s, ok := strings.CutSuffix(w, "ed"); ok && vowels(s) {
			cut = s
		} else if s, ok := strings.CutSuffix(w, "ing"); ok && vowels(s) {
			cut = s
		}
		if cut != "" {
			w = cut
			switch n := len(w); {
			case strings.HasSuffix(w, "at"), strings.HasSuffix(w, "bl"), strings.HasSuffix(w, "iz"):
				w += "e"
			case n > 1 && w[n-1] == w[n-2] && !vowel(w, n-1) && w[n-1] != 'l' && w[n-1] != 's' && w[n-1] != 'z':
				w = w[:n-1]
			case measure(w) == 1 && cvc(w):
				w += "e"
			}
		}
	}
	// Step 1c.
	if s, ok := strings.CutSuffix(w, "y"); ok && vowels(s) {
		w = s + "i"
	}
	w = replace(w, step2, 0)
	w = replace(w, step3, 0)
	for _, end := range step4 {
		if s, ok := cutEnd(w, end); ok {
			if measure(s) > 1 && (end != "ion" || strings.HasSuffix(s, "s") || strings.HasSuffix(s, "t")) {
				w = s
			}
			break
		}
	}
	if s, ok := strings.CutSuffix(w, "e"); ok {
		if m := measure(s); m > 1 || m == 1 && !cvc(s) {
			w = s
		}
	}
	if strings.HasSuffix(w, "ll") && measure(w[:len(w)-1]) > 1 {
		w = w[:len(w)-1]
	}
	return w
}

func replace(w string, rules [][2]string, m int) string {
	for _, r := range rules {
		if s, ok := cutEnd(w, r[0]); ok {
			if measure(s) > m {
				return s + r[1]
			}
			return w
		}
	}
	return w
}

// cutEnd is strings.CutSuffix for two texts that are not empty. It compares the last letters first,
// because nearly all endings differ there.
func cutEnd(w, end string) (string, bool) {
	if w[len(w)-1] != end[len(end)-1] {
		return w, false
	}
	return strings.CutSuffix(w, end)
}

var step2 = [][2]string{{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"}, {"izer", "ize"},
	{"abli", "able"},
	{"alli", "al"}, {"entli", "ent"}, {"eli", "e"}, {"ousli", "ous"}, {"ization", "ize"}, {"ation", "ate"},
	{"ator", "ate"},
	{"alism", "al"}, {"iveness", "ive"}, {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"}, {"iviti", "ive"},
	{"biliti", "ble"}}

var step3 = [][2]string{{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"}, {"ical", "ic"}, {"ful", ""},
	{"ness", ""}}

var step4 = []string{"ement", "ment", "ance", "ence", "able", "ible", "ant", "ent", "ion", "ism", "ate", "iti", "ous",
	"ive", "ize",
	"al", "er", "ic", "ou"}

// vowel reports whether the letter at i is a vowel; y is one after a consonant.
func vowel(w string, i int) bool {
	switch w[i] {
	case 'a', 'e', 'i', 'o', 'u':
		return true
	case 'y':
		return i > 0 && !vowel(w, i-1)
	}
	return false
}

func vowels(w string) bool {
	for i := range len(w) {
		if vowel(w, i) {
			return true
		}
	}
	return false
}

// measure counts the vowel groups that are followed by a consonant.
func measure(w string) (n int) {
	before := false
	for i := range len(w) {
		v := vowel(w, i)
		if before && !v {
			n++
		}
		before = v
	}
	return n
}

// cvc reports whether a word ends in consonant, vowel, consonant, the last not w, x or y.
func cvc(w string) bool {
	n := len(w)
	return n >= 3 && !vowel(w, n-3) && vowel(w, n-2) && !vowel(w, n-1) && w[n-1] != 'w' && w[n-1] != 'x' && w[n-1] != 'y'
}
