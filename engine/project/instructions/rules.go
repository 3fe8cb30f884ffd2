package instructions

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/internal/leaf/frontmatter"
	"github.com/knack-agent/knack/internal/leaf/ignore"
	"github.com/knack-agent/knack/internal/leaf/layout"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/run/agent"
)

// ruleRow tells how each directory of rules is searched.
var ruleRow = layout.Rows(layout.Rule)[0]

// A rule is a context file that is used once a file that matches its paths was touched.
type rule struct {
	document agent.Document
	dir      string // what paths are relative to
	paths    ignore.Rules
}

// below finds the context files of directories below the working directory, when a file there was touched.
type below struct {
	loader *loader
	seen   map[string][]agent.Document // by directory that has context files; none: they were left out
}

// Matching returns what applies because files were touched, absolute paths: the context files and rules of the
// directories that they are in, below the working directory, and the rules whose paths one of them matches. Those of
// directories are read when they are first needed; what is left out of them is added to Problems.
func (f *Found) Matching(touched []string) []agent.Document {
	var docs []agent.Document
	if f.below != nil {
		l := f.below.loader
		docs = f.below.of(touched)
		f.rules, f.Problems = append(f.rules, l.found.rules...), append(f.Problems, l.found.Problems...)
		l.found = Found{}
	}
	for _, r := range f.rules {
		if slices.ContainsFunc(touched, func(path string) bool {
			rel, ok := subpath.Rel(r.dir, path)
			return ok && r.paths.Covers(filepath.ToSlash(rel))
		}) {
			docs = append(docs, r.document)
		}
	}
	return docs
}

// of returns the context files of the directories of the touched files, outer directories first, with the rules that
// always apply; the loader then has the others. What others wrote is left out: hidden directories, node_modules and
// other repositories.
func (b *below) of(touched []string) (docs []agent.Document) {
	l := b.loader
	bound := l.Dir
	if subpath.Contains(l.Root, l.Dir) {
		bound = l.Root
	}
	counts := map[string]bool{} // by directory: it is of this repository
	for _, path := range touched {
		rel, ok := subpath.Rel(l.Dir, filepath.Dir(path))
		if !ok || rel == "." {
			continue
		}
		dir := l.Dir
		for _, name := range strings.Split(rel, string(filepath.Separator)) {
			if name[0] == '.' || name == "node_modules" {
				break
			}
			dir = filepath.Join(dir, name)
			if _, ok := counts[dir]; !ok {
				_, err := os.Lstat(filepath.Join(dir, ".git"))
				counts[dir] = err != nil
			}
			if !counts[dir] {
				break
			}
		}
	}
	maps.DeleteFunc(counts, func(_ string, ok bool) bool { return !ok })
	for _, dir := range slices.Sorted(maps.Keys(counts)) {
		found, ok := b.seen[dir]
		if !ok {
			l.found.Context = nil
			if !l.directory(dir, bound) {
				continue // one may be written later
			}
			found = l.found.Context
			b.seen[dir] = found
		}
		docs = append(docs, found...)
	}
	return docs
}

// rules adds the context files of a directory of rules, and reports whether it exists. dir is what their paths are
// relative to.
func (l *loader) rules(folder, bound, dir string) bool {
	if _, err := os.Lstat(folder); err != nil {
		return false
	}
	for _, path := range l.files(folder, ruleRow, bound) {
		data, _ := l.contextFile(path, bound)
		if data == nil {
			continue
		}
		file := frontmatter.Split(data)
		doc := agent.Document{Path: path, Text: l.imports(path, string(file.Body), bound, 0)}
		if patterns := l.rulePaths(path, file); len(patterns) == 0 || slices.Contains(patterns, "**") {
			l.add(doc.Path, doc.Text)
		} else {
			l.found.rules = append(l.found.rules, rule{document: doc, dir: dir, paths: ignore.Compile(patterns...)})
		}
	}
	return true
}

// rulePaths returns the patterns in the frontmatter of a rule; none: the rule always applies, as one does whose paths
// cannot be read. globs and alwaysApply are those of Cursor's rules.
func (l *loader) rulePaths(path string, file frontmatter.File) (patterns []string) {
	entries, notes := frontmatter.Parse(file.Head, file.Line)
	for _, n := range notes {
		if n.Kind == frontmatter.Lost {
			l.once(knack.CodeTextLost, path, "%s", n.Message)
		}
	}
	for _, e := range entries {
		switch {
		case e.Key == "alwaysApply":
			switch e.Value.Value {
			case "true":
				return nil
			case "false", "":
			default:
				l.once(knack.CodeFieldType, path, "alwaysApply: %q is neither true nor false", e.Value.Value)
			}
			continue
		case e.Key != "paths" && e.Key != "globs":
			if e.Key != "description" { // that is for people
				hint := ""
				if slices.Contains([]string{"applyTo", "path", "glob", "pattern", "patterns"}, e.Key) {
					hint = "write paths"
				}
				l.unused(path, e, "a rule", hint)
			}
			continue
		}
		read := len(patterns)
		switch nodes := e.Value.Content; e.Value.Kind {
		case yaml.ScalarNode:
			if e.Value.ShortTag() != "!!null" {
				patterns = append(patterns, frontmatter.SplitCommas(e.Value.Value)...)
			}
		case yaml.SequenceNode:
			for _, n := range nodes {
				if n.Kind == yaml.ScalarNode && n.Value != "" {
					patterns = append(patterns, n.Value)
				}
			}
		default:
			l.once(knack.CodeFieldType, path, "%s is not a list of patterns: the rule always applies", e.Key)
		}
		for _, pattern := range patterns[read:] {
			if why := ignore.Bad(pattern); why != "" {
				l.once(knack.CodeBadGlob, path, "%s: %q matches nothing: %s", e.Key, pattern, why)
			}
		}
	}
	return patterns
}

// unused reports a key of frontmatter that has no effect. hint says what to write; "": nothing has that effect.
func (l *loader) unused(path string, e frontmatter.Pair, on, hint string) {
	x := knack.Problem{Code: knack.CodeUnknownKey, Severity: knack.Info, Path: path,
		Line: e.Line, Column: e.Column, Message: e.Key + " has no effect on " + on, Hint: hint}
	if hint != "" {
		x.Severity = knack.Warn
	}
	l.found.Problems = append(l.found.Problems, x)
}
