// Package secrets finds text of secrets in other text, also in simple codings.
//
// [Key] knows how keys of services look. [Found] looks for the words of a secret: as they are, in other letter case,
// escaped, reversed, with characters between them, in base64, base32 or hexadecimal, also twice, and for a half of a
// long key. Encryption, compression and small pieces are not found.
package secrets

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// shortest is the length of the shortest word that is looked for. Shorter ones are in many texts.
const shortest = 8

// words splits a text into what could be a key or a password.
func words(text string) []string {
	all := strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || strings.ContainsRune("\"'`=:,;{}[]()<>", r) })
	return slices.DeleteFunc(all, func(w string) bool { return len(w) < shortest })
}

var patterns = sync.OnceValue(func() (p struct{ name, tells, common, escape, coded *regexp.Regexp }) {
	p.name = regexp.MustCompile(`([A-Za-z_][A-Za-z0-9_.-]*)["']?\s*[=:]\s*(.*)`)
	p.tells = regexp.MustCompile(`(?i)pass|secret|token|key|pwd|credential|auth|login|_pw$|^pw$`)
	p.common = regexp.MustCompile(`^(?:password|[a-z-]+(?:\.[a-z-]+)+)$`)
	p.escape = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	p.coded = regexp.MustCompile(`[A-Za-z0-9+/_-]{8,}`)
	return p
})

// Values returns those words of a file of secrets that look like keys and passwords, one a line: the values that a name
// such as API_KEY introduces, and what looks random. Such files also contain names, hosts and words such as
// "development", which many texts contain.
func Values(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		told, plain := false, false
		if m := patterns().name.FindStringSubmatch(line); m != nil {
			told = patterns().tells.MatchString(m[1])
			line = m[2]
		} else {
			told, plain = patterns().tells.MatchString(line), true // such as "password x" in .netrc
		}
		for _, w := range words(line) {
			if told && !(plain && patterns().common.MatchString(w)) || random(w) {
				b.WriteString(w)
				b.WriteByte('\n')
			}
		}
	}
	return b.String()
}

// random reports whether a part of a word has letters and digits, or is long with letters of both cases, as keys have.
func random(word string) bool {
	parts := strings.FieldsFunc(word, func(r rune) bool { return strings.ContainsRune("-./@+?&#$%", r) })
	return slices.ContainsFunc(parts, func(p string) bool {
		return len(p) >= shortest && mixed(p) || len(p) >= 20 && strings.ToLower(p) != p && strings.ToUpper(p) != p
	})
}

func mixed(s string) bool {
	return strings.ContainsAny(s, "0123456789") && strings.ContainsFunc(s, letter)
}

func letter(r rune) bool { return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' }

var keys = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY|\bsk-[A-Za-z0-9_-]{16,}|\bgh[pousr]_[A-Za-z0-9]{20,}|` +
		`\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}|\bAKIA[A-Z0-9]{16}\b|\bxox[abprs]-[A-Za-z0-9-]{10,}|` +
		`\bAIza[A-Za-z0-9_-]{30,}|\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.`)
})

// Key returns the first private key, or key in the form of a known service, that a text contains; "": there is none.
// Unlike [Found] it needs to know no secret. Examples in documentation, such as sk-your-key-goes-here, are none.
func Key(text string) string {
	for _, key := range keys().FindAllString(text, -1) {
		if strings.HasPrefix(key, "-----") || mixed(key) && !strings.HasSuffix(key, "EXAMPLE") {
			return key
		}
	}
	return ""
}

// Found reports whether a text contains a word of one of some secrets.
func Found(text string, secrets []string) bool {
	x := index{}
	for _, s := range secrets {
		for _, w := range words(s) {
			x.add(w)
		}
	}
	return len(x) > 0 && slices.ContainsFunc(forms(text), x.in)
}

// Carried returns the words of a text that contain a word of one of some secrets, or the whole text if only several of
// them do together; nil if none does.
func Carried(text string, secrets []string) (carried []string) {
	if !Found(text, secrets) {
		return nil
	}
	for _, w := range words(text) {
		if Found(w, secrets) {
			carried = append(carried, w)
		}
	}
	if carried == nil {
		return []string{text}
	}
	return carried
}

// An index has words in lower case, by how they begin.
type index map[[shortest]byte][]string

func (x index) add(word string) {
	x.put(strings.ToLower(word))
	x.put(alphanumeric(strings.ToLower(word)))
	if len(word) < 2*shortest+4 || !mixed(word) {
		return
	}
	// Whatever half of a long key is sent, one of these parts is in it.
	for i := 0; i+shortest <= len(word); i += shortest {
		if part := word[i : i+shortest]; mixed(part) || strings.ToLower(part) != part && strings.ToUpper(part) != part {
			x.put(strings.ToLower(part))
		}
	}
}

func (x index) put(word string) {
	if len(word) < shortest {
		return
	}
	start := [shortest]byte([]byte(word[:shortest]))
	if !slices.Contains(x[start], word) {
		x[start] = append(x[start], word)
	}
}

// in reports whether a text in lower case contains a word.
func (x index) in(text string) bool {
	for i := 0; i+shortest <= len(text); i++ {
		for _, w := range x[[shortest]byte([]byte(text[i:i+shortest]))] {
			if strings.HasPrefix(text[i:], w) {
				return true
			}
		}
	}
	return false
}

// maxForms limits what a text is decoded into, in bytes.
const maxForms = 4 << 20

// forms returns a text as it is and decoded, in lower case.
func forms(text string) []string {
	plain := []string{text}
	for range 3 { // escaped, perhaps more than once
		last := plain[len(plain)-1]
		next := patterns().escape.ReplaceAllStringFunc(last, func(escape string) string {
			b, _ := hex.DecodeString(escape[1:])
			return string(b)
		})
		if next == last {
			break
		}
		plain = append(plain, next)
	}
	size := 0
	decode := func(from []string) (out []string) {
		for _, s := range from {
			for _, run := range patterns().coded.FindAllString(s, -1) {
				parts := strings.FieldsFunc(run, func(r rune) bool { return strings.ContainsRune("/-_+", r) })
				if len(parts) != 1 || parts[0] != run {
					parts = append(parts, run)
				}
				for _, part := range parts {
					for _, d := range decodings(part) {
						if size += len(d); size > maxForms {
							return out
						}
						out = append(out, d)
					}
				}
			}
		}
		return out
	}
	once := decode(plain)
	twice := decode(slices.DeleteFunc(slices.Clone(once), func(s string) bool { return !printable(s) }))
	var all []string
	for _, s := range slices.Concat(plain, once, twice) {
		s = strings.ToLower(s)
		all = append(all, s, alphanumeric(s), reversed(s), second(s, 0), second(s, 1))
	}
	return all
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < '\t' || r > '~' })
}

// alphanumeric returns the letters and digits of a text: what is between them, such as hyphens, or the zeros of UTF-16,
// may have been added.
func alphanumeric(s string) string {
	return strings.Map(func(r rune) rune {
		if letter(r) || '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, s)
}

func reversed(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// second returns every second byte.
func second(s string, first int) string {
	b := make([]byte, 0, len(s)/2+1)
	for i := first; i < len(s); i += 2 {
		b = append(b, s[i])
	}
	return string(b)
}

// decodings returns what a run of characters could be the base64, base32 or hexadecimal form of. The text may begin
// before the run, so that the run begins in the middle of a group.
func decodings(run string) []string {
	var out []string
	add := func(data []byte, err error) {
		if err == nil && len(data) >= shortest {
			out = append(out, string(data))
		}
	}
	std := strings.NewReplacer("-", "+", "_", "/").Replace(run)
	for skip := range min(4, len(std)) {
		part := std[skip:]
		if len(part)%4 == 1 { // no text has such a length
			part = part[:len(part)-1]
		}
		add(base64.RawStdEncoding.DecodeString(part))
	}
	for skip := range min(2, len(run)) {
		part := run[skip:]
		add(hex.DecodeString(part[:len(part)/2*2]))
	}
	upper := strings.ToUpper(run)
	if strings.Trim(upper, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") == "" {
		for skip := range min(8, len(upper)) {
			part := upper[skip:]
			for _, short := range []int{1, 3, 6} { // no text has such a length
				if len(part)%8 == short {
					part = part[:len(part)-1]
				}
			}
			add(base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(part))
		}
	}
	return out
}
