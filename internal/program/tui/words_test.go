package tui

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// wordFiles are the files of testdata with what Knack says to people, by the directories that say it. Engine has also
// what is said to models, because one text is often for both.
var wordFiles = map[string][]string{
	"words.txt":        {"../tui", "../line", "../show"},
	"words-cli.txt":    {"../cli"},
	"words-engine.txt": {"../../../engine", "../../../engine/command", "../../../engine/part/*", "../../../engine/project/*"},
	"words-rules.txt":  {"../../../confine/permission", "../../../confine/permission/internal/bash", "../../../run/gate"},
}

// TestWords: the files of testdata have what the screen, line mode, the commands of the shell and their errors, hints,
// help, trust, doctor and approvals say to people, so that the words can be read in one go. They are the texts of the
// code with three words or more.
func TestWords(t *testing.T) {
	for name, dirs := range wordFiles {
		golden, got := filepath.Join("testdata", name), said(t, dirs)
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if string(want) != got {
			t.Errorf("%s does not have the words of the code: read them, then go test ./internal/program/tui "+
				"-run TestWords -update", golden)
		}
	}
}

// said returns the texts of the files in directories, each after the name of its file.
func said(t *testing.T, dirs []string) string {
	var out strings.Builder
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			all := texts(f)
			if len(all) > 0 {
				out.WriteString(strings.TrimLeft(filepath.ToSlash(file), "./") + "\n")
			}
			for _, s := range all {
				out.WriteString("  " + strings.ReplaceAll(s, "\n", "\\n") + "\n")
			}
		}
	}
	return out.String()
}

// texts returns the texts of a file, each once, in the order in which they stand there; what is joined by + is one,
// with … for what is not known.
func texts(f *ast.File) (all []string) {
	add := func(s string) {
		if wordCount(s) > 2 && !strings.Contains(s, "\x1b") && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil
		case *ast.BinaryExpr:
			if n.Op == token.ADD {
				if s, ok := joined(n); ok {
					add(s)
					return false
				}
			}
		case *ast.BasicLit:
			if s, ok := joined(n); ok {
				add(s)
			}
		}
		return true
	})
	return all
}

// wordCount counts what has a letter.
func wordCount(s string) (n int) {
	for w := range strings.FieldsSeq(s) {
		if strings.ContainsFunc(w, unicode.IsLetter) && !strings.HasPrefix(w, "%") {
			n++
		}
	}
	return n
}

// joined returns the text of an expression; ok is false if no part of it is a text.
func joined(e ast.Expr) (s string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			s, err := strconv.Unquote(e.Value)
			return s, err == nil
		}
		return "", false
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, a := joined(e.X)
		right, b := joined(e.Y)
		if !a {
			left = "…"
		}
		if !b {
			right = "…"
		}
		return left + right, a || b
	}
	return "", false
}
