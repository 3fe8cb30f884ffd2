package ignore

import "strings"

// A rule is one compiled pattern. Each segment between slashes is matched separately, so that
// matching takes two nested loops and no recursion: its time is bounded by the product of the
// lengths of pattern and path.
type rule struct {
	negated  bool
	dirOnly  bool // the pattern ended in a slash
	baseOnly bool // the pattern has no slash: it is matched against the last name of a path
	prefix   string
	segments []segment
}

// A segment is the pattern for one name.
type segment struct {
	deep    bool   // **: matches any number of names
	literal string // the whole pattern, if tokens is nil
	tokens  []token
}

type token struct {
	kind byte // 'c' (this byte), '?', '*' or '['
	c    byte
	set  *[4]uint64
}

// compile compiles a pattern from which comments and blanks were already removed.
func compile(p string) (rule, bool) {
	var r rule
	if strings.HasPrefix(p, "!") {
		r.negated = true
		p = p[1:]
	}
	if strings.HasSuffix(p, "/") {
		r.dirOnly = true
		p = p[:len(p)-1]
	}
	if p == "" {
		return r, false
	}
	r.baseOnly = !strings.Contains(p, "/")
	p = strings.TrimPrefix(p, "/")
	// Git compares the text before the first wildcard separately, so for Git the ** of "a**/b"
	// is at the beginning of a pattern.
	if i := strings.IndexAny(p, `*?[\`); i > 0 && p[i-1] != '/' && !r.baseOnly {
		if rest := strings.TrimLeft(p[i:], "*"); len(p)-i-len(rest) >= 2 && (rest == "" || rest[0] == '/') {
			r.prefix, p = p[:i], p[i:]
		}
	}

	var seg []token
	end := func(raw string) {
		s := segment{tokens: seg}
		switch {
		case len(raw) >= 2 && strings.Trim(raw, "*") == "" && !r.baseOnly:
			s = segment{deep: true}
		case !strings.ContainsAny(raw, `*?[\`):
			s = segment{literal: raw}
		}
		r.segments = append(r.segments, s)
		seg = nil
	}
	from := 0
	for i := 0; i < len(p); i++ {
		switch c := p[i]; c {
		case '/':
			end(p[from:i])
			from = i + 1
		case '*':
			if n := len(seg); n == 0 || seg[n-1].kind != '*' {
				seg = append(seg, token{kind: '*'})
			}
		case '?':
			seg = append(seg, token{kind: '?'})
		case '[':
			set, next, ok := class(p, i+1)
			if !ok {
				return r, false // not closed: in git it matches nothing
			}
			seg = append(seg, token{kind: '[', set: set})
			i = next
		case '\\':
			i++
			if i == len(p) {
				return r, false
			}
			if p[i] == '/' {
				end(p[from : i-1])
				from = i + 1
				continue
			}
			seg = append(seg, token{kind: 'c', c: p[i]})
		default:
			seg = append(seg, token{kind: 'c', c: c})
		}
	}
	end(p[from:])
	return r, true
}

// class parses a bracket expression; i is the index after the opening bracket, and next is
// that of the closing one.
func class(p string, i int) (set *[4]uint64, next int, ok bool) {
	set = new([4]uint64)
	add := func(from, to byte) {
		for c := int(from); c <= int(to); c++ {
			set[c>>6] |= 1 << (c & 63)
		}
	}
	negated := i < len(p) && (p[i] == '!' || p[i] == '^')
	if negated {
		i++
	}
	var before byte // the possible first character of a range
	for first := true; ; first = false {
		if i >= len(p) {
			return nil, 0, false
		}
		c := p[i]
		switch {
		case c == ']' && !first:
			if negated {
				for j := range set {
					set[j] = ^set[j]
				}
			}
			set['/'>>6] &^= 1 << ('/' & 63)
			return set, i, true
		case c == '\\':
			i++
			if i == len(p) {
				return nil, 0, false
			}
			c = p[i]
			add(c, c)
			before = c
		case c == '-' && before != 0 && i+1 < len(p) && p[i+1] != ']':
			i++
			if p[i] == '\\' {
				i++
				if i == len(p) {
					return nil, 0, false
				}
			}
			add(before, p[i])
			before = 0
		case c == '[' && i+1 < len(p) && p[i+1] == ':':
			n := strings.IndexByte(p[i+2:], ']')
			if n < 0 {
				return nil, 0, false
			}
			name, isClass := strings.CutSuffix(p[i+2:i+2+n], ":")
			if !isClass { // [[:x]: a set that begins with a bracket
				add('[', '[')
				before = '['
				break
			}
			in := posix(name)
			if in == nil {
				return nil, 0, false
			}
			for b := range 128 {
				if in(byte(b)) {
					add(byte(b), byte(b))
				}
			}
			before = 0
			i += 2 + n
		default:
			add(c, c)
			before = c
		}
		i++
	}
}

// posix returns a function that matches the members of [:class:] within ASCII.
func posix(name string) func(byte) bool {
	between := func(from, to byte) func(byte) bool {
		return func(c byte) bool { return from <= c && c <= to }
	}
	lower, upper, digit, graph := between('a', 'z'), between('A', 'Z'), between('0', '9'), between('!', '~')
	alnum := func(c byte) bool { return lower(c) || upper(c) || digit(c) }
	switch name {
	case "lower":
		return lower
	case "upper":
		return upper
	case "digit":
		return digit
	case "graph":
		return graph
	case "alnum":
		return alnum
	case "alpha":
		return func(c byte) bool { return lower(c) || upper(c) }
	case "blank":
		return func(c byte) bool { return c == ' ' || c == '\t' }
	case "cntrl":
		return func(c byte) bool { return c < ' ' || c == 127 }
	case "print":
		return between(' ', '~')
	case "punct":
		return func(c byte) bool { return graph(c) && !alnum(c) }
	case "space":
		return func(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }
	case "xdigit":
		return func(c byte) bool { return digit(c) || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F' }
	}
	return nil
}

func (r *rule) match(rel string, isDir bool) bool {
	if r.dirOnly && !isDir {
		return false
	}
	if r.baseOnly {
		return r.segments[0].match(rel[strings.LastIndexByte(rel, '/')+1:])
	}
	rel, ok := strings.CutPrefix(rel, r.prefix)
	if !ok {
		return false
	}
	// As for * in a name: on a mismatch, the last ** matches one more name.
	segs := r.segments
	i, star := 0, -1
	at, starAt := 0, 0 // indexes into rel where the next name begins
	for at <= len(rel) {
		if i < len(segs) && segs[i].deep {
			if i == len(segs)-1 {
				return true // there is another name
			}
			star, starAt = i, at
			i++
			continue
		}
		end := strings.IndexByte(rel[at:], '/')
		if end < 0 {
			end = len(rel)
		} else {
			end += at
		}
		if i < len(segs) && segs[i].match(rel[at:end]) {
			i, at = i+1, end+1
			continue
		}
		if star < 0 {
			return false
		}
		n := strings.IndexByte(rel[starAt:], '/')
		if n < 0 {
			return false
		}
		starAt += n + 1
		i, at = star+1, starAt
	}
	return i == len(segs)
}

func (s *segment) match(name string) bool {
	if s.tokens == nil {
		return name == s.literal && name != ""
	}
	toks := s.tokens
	i, star, at, starAt := 0, -1, 0, 0
	for at < len(name) {
		if i < len(toks) {
			switch t := toks[i]; {
			case t.kind == '*':
				star, starAt = i, at
				i++
				continue
			case t.kind == '?',
				t.kind == 'c' && t.c == name[at],
				t.kind == '[' && t.set[name[at]>>6]&(1<<(name[at]&63)) != 0:
				i++
				at++
				continue
			}
		}
		if star < 0 {
			return false
		}
		starAt++
		i, at = star+1, starAt
	}
	for i < len(toks) && toks[i].kind == '*' {
		i++
	}
	return i == len(toks)
}
