package instructions

import (
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/agent"
	"github.com/knack-agent/knack/internal/leaf/frontmatter"
	"github.com/knack-agent/knack/internal/leaf/ignore"
	"github.com/knack-agent/knack/internal/leaf/subpath"
	"github.com/knack-agent/knack/internal/project/layout"
)

// ruleRow tells how each directory of rules is searched.
var ruleRow = layout.Rows(layout.Rule)[0]

// A rule is a context file that is used once a file that matches its paths was touched.
type rule struct {
	document agent.Document
	dir      string // what paths are relative to
	paths    ignore.Rules
}

// Matching returns the rules that apply because one of the touched files, absolute paths, matches their paths.
func (f *Found) Matching(touched []string) []agent.Document {
	var docs []agent.Document
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

// rules adds the context files of a directory of rules. dir is what their paths are relative to.
func (l *loader) rules(folder, bound, dir string) {
	if folder == "" {
		return
	}
	for _, path := range l.files(folder, ruleRow, bound) {
		if real, _, err := inside(bound, path); err == nil && l.included[real] {
			continue // the user's own rules, in a home directory above the project
		}
		data, _ := l.contextFile(path, bound)
		if data == nil {
			continue
		}
		file := frontmatter.Split(data)
		doc := agent.Document{Path: path, Text: l.imports(path, string(file.Body), bound, 0)}
		if patterns := l.rulePaths(path, file); len(patterns) == 0 || slices.Contains(patterns, "**") {
			l.found.Context = append(l.found.Context, doc)
		} else {
			l.found.rules = append(l.found.rules, rule{document: doc, dir: dir, paths: ignore.Compile(patterns...)})
		}
	}
}

// rulePaths returns the patterns in the frontmatter of a rule. A rule whose paths cannot be read always applies.
func (l *loader) rulePaths(path string, file frontmatter.File) (patterns []string) {
	entries, _ := frontmatter.Parse(file.Head, file.Line)
	for _, e := range entries {
		if e.Key != "paths" {
			continue
		}
		switch nodes := e.Value.Content; e.Value.Kind {
		case yaml.ScalarNode:
			if e.Value.ShortTag() != "!!null" {
				patterns = frontmatter.SplitCommas(e.Value.Value)
			}
		case yaml.SequenceNode:
			for _, n := range nodes {
				if n.Kind == yaml.ScalarNode && n.Value != "" {
					patterns = append(patterns, n.Value)
				}
			}
		default:
			l.once(knack.CodeFieldType, path, "paths is not a list of patterns: the rule always applies")
		}
	}
	return patterns
}
