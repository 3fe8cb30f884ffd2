package mcp

import (
	"regexp"
	"strings"
	"sync"
)

// readOnly matches what programs say when the sandbox does not let them write, with the path if it is quoted or ends
// the line. A directory that cannot be made because the one above it is missing is such a path, too: the sandbox hides
// what a server may not see. That a file is missing says nothing.
var readOnly = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("(?:EROFS|[Rr]ead-only file ?system|" +
		"ENOENT: no such file or directory, (?:mkdir|mkdtemp)\\b)[^\n'\"]*(?:['\"]([^'\"\n]+)['\"])?")
})

// writeHint says what to do about a path that the sandbox does not let a server write; "": the text is not about one.
func writeHint(text string) string {
	m := readOnly().FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	what := "a path"
	if strings.HasPrefix(m[1], "/") {
		what = m[1]
	}
	return "the sandbox does not let this server write " + what +
		"; your setting sandbox.allowWrite can allow its directory"
}
