package mcp

import (
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// refusals are the ways in which programs say that the sandbox does not let them write. missing matches that a file or
// directory is not there, which Node.js also says of a directory that it may not make; browser, what browsers and the
// programs that start them say where the browser's own sandbox cannot start.
var refusals = sync.OnceValue(func() (r struct{ readOnly, missing, browser, quoted, plain, field *regexp.Regexp }) {
	r.readOnly = regexp.MustCompile(`EROFS|(?i:read-only file ?system)|\[Errno 30\]|os error 30\b|` +
		`attempt to write a readonly database|unable to open database file`)
	r.missing = regexp.MustCompile(`ENOENT|\[Errno 2\]|os error 2\b|No such file or directory`)
	r.browser = regexp.MustCompile(`(?i:sandboxing failed|no usable sandbox|without --no-sandbox)|Target closed`)
	r.quoted = regexp.MustCompile("['\"`‘“](/[^'\"`’”\n]+)['\"`’”]")
	r.plain = regexp.MustCompile(`(?:^|[\s(=:])(/[^\s:;,'"()]+)`)
	r.field = regexp.MustCompile(`\b(?:path|filename)\\?['"]?\s*[:=]\s*\\?['"]?(/[^'"\\\n,}]+)`)
	return r
})

// afterRefusal limits how far behind a refusal its path may be, where an error is printed as an object.
const afterRefusal = 400

// An Unwritten is a path that the program of a server could not write, or something else that the sandbox refused.
type Unwritten struct {
	Path    string // "": the program did not name it
	Missing bool   // it only said that something is not there
	Mkdir   bool   // what is missing is a directory that it could not make
	Browser bool   // perhaps it is a browser that could not start its own sandbox
	Start   bool   // the program did not start because of it; otherwise, it was a call
}

// unwritten looks in what a server says for what the sandbox refused.
func unwritten(text string) (u Unwritten, found bool) {
	r := refusals()
	for _, missing := range []bool{false, true} {
		says := r.readOnly
		if missing {
			says = r.missing
		}
		for _, at := range says.FindAllStringIndex(text, 20) {
			start := strings.LastIndexByte(text[:at[0]], '\n') + 1
			line, _, _ := strings.Cut(text[start:], "\n")
			rest := text[at[0]:min(len(text), at[0]+afterRefusal)]
			path := lastMatch(r.quoted, line)
			if m := r.field.FindStringSubmatch(rest); path == "" && m != nil {
				path = m[1]
			}
			if path == "" {
				path = lastMatch(r.plain, line)
			}
			if path != "" || !missing {
				if path != "" {
					path = filepath.Clean(path)
				}
				return Unwritten{Path: path, Missing: missing, Mkdir: missing && strings.Contains(line, ", mkdir '")}, true
			}
		}
	}
	return Unwritten{Browser: true}, r.browser.MatchString(text)
}

// lastMatch returns the last group that a pattern finds: of two paths, the second is the one to write.
func lastMatch(pattern *regexp.Regexp, line string) string {
	all := pattern.FindAllStringSubmatch(line, -1)
	if len(all) == 0 {
		return ""
	}
	return strings.TrimSpace(all[len(all)-1][1])
}

// writeHint says what to do if a text is about something that the sandbox does not let a server do; "": it is not.
func (c *Client) writeHint(s *Server, text string, start bool) string {
	if c.opt.Unwritable == nil || s.Command == "" {
		return ""
	}
	u, found := unwritten(text)
	if !found {
		return ""
	}
	u.Start = start
	return c.opt.Unwritable(*s, u)
}
