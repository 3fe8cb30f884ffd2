package instructions

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/fences"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// imports replaces each @path in a context file by the content of the file, and leaves out HTML comments, which are for
// people. Both count only outside of code. A path is considered at the start of a line, after a blank and after an
// opening bracket or quote; one that cannot be imported is left unchanged, except where all of a line is the path of a
// file that is sent already.
func (l *loader) imports(path, text, bound string, depth int) string {
	if !strings.Contains(text, "@") && !strings.Contains(text, "<!--") {
		return text
	}
	w := importer{loader: l, path: path, bound: bound, depth: depth}
	fence := ""
	for text != "" {
		line := text
		if end := strings.IndexByte(text, '\n'); end >= 0 {
			line = text[:end+1]
		}
		if fence != "" {
			if fences.Closes(line, fence) {
				fence = ""
			}
		} else if fence = fences.Opens(strings.TrimSpace(line)); fence == "" { // as far in as the lists around it want
			text = w.line(text)
			continue
		}
		w.out = append(w.out, line...)
		text = text[len(line):]
	}
	return string(w.out)
}

// An importer writes one context file.
type importer struct {
	loader      *loader
	path, bound string
	depth       int
	out         []byte
}

// line writes the line that text begins with and returns what follows. A comment may reach beyond the line.
func (w *importer) line(text string) (rest string) {
	begin := len(w.out)
	code := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		line, _, _ := strings.Cut(text[i:], "\n")
		switch {
		case c == '\n':
			w.out = append(w.out, c)
			return text[i+1:]
		case c == '`':
			code = !code && strings.Contains(line[1:], "`")
		case !code && strings.HasPrefix(text[i:], "<!--"):
			n := strings.Index(text[i+4:], "-->")
			if n < 0 {
				break // without an end, it is text
			}
			i += 4 + n + 2
			line, after, _ := strings.Cut(text[i+1:], "\n")
			if strings.TrimSpace(string(w.out[begin:])) == "" && strings.TrimSpace(line) == "" {
				w.out = w.out[:begin] // nothing else was on its lines
				return after
			}
			continue
		case !code && c == '@' && (i == 0 || strings.IndexByte(" \t([{\"'*_>", text[i-1]) >= 0):
			name, content, sent := w.file(line[1:])
			switch {
			case sent && strings.TrimSpace(string(w.out[begin:])) == "" && strings.TrimSpace(line[1+len(name):]) == "":
				w.out = w.out[:begin]
				return strings.TrimPrefix(text[i+len(line):], "\n")
			case name != "" && !sent:
				w.out = append(w.out, content...)
				i += len(name)
				continue
			}
		}
		w.out = append(w.out, c)
	}
	return ""
}

// punctuation may follow a path without being a part of it.
const punctuation = ".,;:!?)]}>\"'*_"

// file imports the file that is named at the start of s, which follows an @: all of the word, the word without
// punctuation at its end, or what stands before the first sign of punctuation. name is "" if no such file was imported;
// sent reports that it is sent already.
func (w *importer) file(s string) (name, content string, sent bool) {
	s = s[:wordEnd(s)]
	trimmed := strings.TrimRight(s, punctuation)
	first := trimmed
	if end := strings.IndexAny(trimmed, ",;:!?()[]{}<>\"'*"); end >= 0 {
		first = trimmed[:end]
	}
	for _, name := range []string{s, trimmed, first} {
		switch content, found := w.loader.imported(w.path, strings.ReplaceAll(name, `\ `, " "), w.bound, w.depth); found {
		case isNew:
			return name, content, false
		case isSent:
			return name, "", true
		case isRefused:
			return "", "", false
		}
	}
	if strings.HasSuffix(trimmed, ".md") { // other words that begin with @ are names of people and packages
		w.loader.found.Problems = append(w.loader.found.Problems, knack.Problem{Code: knack.CodeSettingIgnored,
			Severity: knack.Info, Path: w.path, Message: "@" + plain.Line(trimmed) + ": there is no such file to import"})
	}
	return "", "", false
}

// wordEnd returns where the first word of a text ends. A blank after a backslash is part of it.
func wordEnd(s string) int {
	for i := range len(s) {
		if strings.IndexByte(" \t\r\n`", s[i]) >= 0 && !(s[i] == ' ' && i > 0 && s[i-1] == '\\') {
			return i
		}
	}
	return len(s)
}

// A finding is what became of the path of an import.
type finding uint8

const (
	isAbsent  finding = iota // there is no such file
	isNew                    // its text is returned
	isSent                   // it is part of the context already
	isRefused                // it is left out
)

// imported returns the text of a file that another one names, with its own imports.
func (l *loader) imported(from, name, bound string, depth int) (string, finding) {
	if name == "" {
		return "", isAbsent
	}
	path := subpath.Expand(name, l.Home)
	switch {
	case strings.HasPrefix(path, "~/"): // there is no home directory
		return "", isAbsent
	case !filepath.IsAbs(path):
		path = filepath.Join(filepath.Dir(from), path)
	}
	if !strings.ContainsAny(name, "./") {
		// @README may be a file; @somebody is a person, also where a directory has the name.
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			return "", isAbsent
		}
	}
	if l.included[path] {
		return "", isSent
	}
	real, top, err := inside(bound, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", isAbsent
	case err == nil && l.included[real]:
		return "", isSent // each file is imported once
	case err == nil && depth == maxImports:
		l.once(knack.CodeLimitReached, from, "@%s: imports go at most %d deep", name, maxImports)
		return "", isRefused
	case len(l.included) > maxImported:
		l.once(knack.CodeLimitReached, from, "@%s: at most %d files are imported", name, maxImported)
		return "", isRefused
	}
	l.included[path] = true // even if it cannot be read, it is tried only once
	var data []byte
	if err == nil {
		l.included[real] = true
		data, err = l.readReal(path, real, top)
	}
	if err != nil {
		l.once(knack.CodeUnreadable, from, "@%s: %v", name, err)
		return "", isRefused
	}
	if !l.fits(path, data) {
		return "", isRefused
	}
	return strings.TrimRight(l.imports(path, string(data), bound, depth+1), "\n"), isNew
}
