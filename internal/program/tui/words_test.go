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

// TestWords: testdata/words.txt has what the screen, line mode and what both show with say to people, so that the words
// can be read in one go. They are the texts of the code with three words or more.
func TestWords(t *testing.T) {
	const golden = "testdata/words.txt"
	var out strings.Builder
	for _, dir := range []string{"../tui", "../line", "../show"} {
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
			said := texts(f)
			if len(said) > 0 {
				out.WriteString(filepath.ToSlash(strings.TrimPrefix(file, ".."+string(filepath.Separator))) + "\n")
			}
			for _, s := range said {
				out.WriteString("  " + strings.ReplaceAll(s, "\n", "\\n") + "\n")
			}
		}
	}
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != out.String() {
		t.Errorf("%s does not have the words of the code: read them, then go test ./internal/program/tui -run TestWords -update",
			golden)
	}
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
