package bash

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// A Made is a file that a word names although the word's value is unknown before the command runs. Either mktemp
// chooses its name, in the directory for temporary files, or a variable was exported with a literal value.
type Made struct {
	// Path has a placeholder for the name that mktemp chooses. It is relative to the directory for temporary files,
	// unless it is absolute or Literal.
	Path    string
	Literal bool
	// Rest is the value of the word if mktemp fails and prints nothing.
	Rest string
}

// maxMade is the most parts of a word that made looks at, so that its time remains linear.
const maxMade = 16

// madeName stands for the name that mktemp chooses.
const madeName = "tmp.XXXXXXXXXX"

// made returns the files that a word may name if it begins with $TMPDIR, with the output of mktemp, or with a variable
// that has such a value or was exported with a literal one; nil: nothing is known.
func (a *analysis) made(w *syntax.Word) []Made {
	parts := w.Parts
	if a.anyFunc || len(parts) == 0 {
		return nil
	}
	var rest []syntax.WordPart
	if q, ok := parts[0].(*syntax.DblQuoted); ok && !q.Dollar && len(q.Parts) > 0 {
		if len(q.Parts) > 1 {
			rest = []syntax.WordPart{&syntax.DblQuoted{Parts: q.Parts[1:]}}
		}
		rest, parts = append(rest, parts[1:]...), q.Parts
	} else {
		rest = parts[1:]
	}
	if len(rest) > maxMade || len(parts) > maxMade {
		return nil
	}
	starts := a.madeBy(parts[0])
	if len(starts) == 0 || len(rest) == 0 {
		return starts
	}
	for _, p := range rest {
		if _, pipe := p.(*syntax.ProcSubst); pipe {
			return nil
		}
	}
	end := a.word(&syntax.Word{Parts: rest})
	if end.Values == nil || end.Glob || end.Many || end.Tilde || len(starts)*len(end.Values) > maxAlternatives {
		return nil
	}
	var all []Made
	for _, m := range starts {
		for _, v := range end.Values {
			if v != "" && v[0] != '/' || strings.Contains(v, "..") {
				return nil
			}
			m := m
			m.Path += v
			if !m.Literal {
				m.Rest += v
			}
			all = append(all, m)
		}
	}
	return all
}

// madeBy is made for the first part of a word.
func (a *analysis) madeBy(p syntax.WordPart) []Made {
	switch p := p.(type) {
	case *syntax.CmdSubst:
		if path := makesTemp(p); path != "" && a.ownTemp() {
			return []Made{{Path: path}}
		}
	case *syntax.ParamExp:
		if p.Param == nil {
			return nil
		}
		name := p.Param.Value
		if name == "TMPDIR" && a.ownTemp() && (simpleParam(p) || orTmp(p)) {
			return []Made{{Path: "."}}
		}
		if v := a.vars[name]; v != nil && simpleParam(p) {
			return v.made
		}
	}
	return nil
}

// ownTemp reports whether the command line leaves TMPDIR as the environment sets it.
func (a *analysis) ownTemp() bool { return a.vars["TMPDIR"] == nil && !a.allVars }

// orTmp reports whether an expansion is ${NAME:-/tmp} or ${NAME-/tmp}.
func orTmp(p *syntax.ParamExp) bool {
	e := p.Exp
	bare := *p
	bare.Exp = nil
	return e != nil && (e.Op == syntax.DefaultUnset || e.Op == syntax.DefaultUnsetOrNull) && e.Word != nil &&
		e.Word.Lit() == "/tmp" && simpleParam(&bare)
}

// settleMade sets the files that a variable may name if it is assigned once. A name with capitals may also come from the
// environment, so for such a name the assignment must be sure to run.
func (a *analysis) settleMade(v *variable, name string) {
	if v.unknown || a.allVars || len(v.words) != 1 || v.items[0] || !v.certain && strings.ToLower(name) != name {
		return
	}
	if v.made = a.made(v.words[0]); v.made == nil && v.exported {
		if s, ok := literal(a.word(v.words[0])); ok {
			v.made = []Made{{Path: s, Literal: true}}
		}
	}
}

// literal returns the value of a word that is written as it is, and needs no quotes.
func literal(w Word) (string, bool) {
	s, ok := w.Value()
	return s, ok && w.Literal && !w.Tilde && PlainWord(s)
}

// makesTemp returns the Path of what a substitution creates if it runs mktemp and nothing else; "": it runs something
// else, or the place of the file depends on the working directory.
func makesTemp(c *syntax.CmdSubst) string {
	if len(c.Stmts) != 1 {
		return ""
	}
	call, ok := c.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 || call.Args[0].Lit() != "mktemp" || slices.ContainsFunc(call.Args, expands) {
		return "" // without looking into nested substitutions, each of which would be looked at again
	}
	words, ok := substituted(c)
	if !ok {
		return ""
	}
	template, below := "", false
	for _, w := range words[1:] {
		suffix, isSuffix := strings.CutPrefix(w, "--suffix=")
		switch {
		case w == "-d" || w == "--directory" || w == "-q" || w == "--quiet":
		case w == "-t" || w == "-dt" || w == "--tmpdir":
			below = true
		case isSuffix && !strings.Contains(suffix, "/"):
		case strings.HasPrefix(w, "-") || template != "" || !PlainWord(w) || strings.Contains(w, ".."):
			return ""
		default:
			template = w
		}
	}
	switch {
	case template == "":
		return madeName
	case below && strings.Contains(template, "/"), !below && !strings.HasPrefix(template, "/tmp/"):
		return ""
	}
	return template
}

// expands reports whether a word has more than literal text in it.
func expands(w *syntax.Word) bool {
	return slices.ContainsFunc(w.Parts, func(p syntax.WordPart) bool {
		switch p := p.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
			return false
		case *syntax.DblQuoted:
			return slices.ContainsFunc(p.Parts, func(q syntax.WordPart) bool {
				_, lit := q.(*syntax.Lit)
				return !lit
			})
		}
		return true
	})
}

// entersTemp reports whether a word is a mktemp substitution whose result lies directly in the directory for temporary
// files.
func entersTemp(w *syntax.Word) bool {
	if len(w.Parts) != 1 {
		return false
	}
	p := w.Parts[0]
	if q, ok := p.(*syntax.DblQuoted); ok && !q.Dollar && len(q.Parts) == 1 {
		p = q.Parts[0]
	}
	c, ok := p.(*syntax.CmdSubst)
	if !ok {
		return false
	}
	path := makesTemp(c)
	return path != "" && !strings.Contains(strings.TrimPrefix(path, "/tmp/"), "/")
}
