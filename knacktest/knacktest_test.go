package knacktest

import (
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/knack-agent/knack"
)

func TestSources(t *testing.T) {
	files := fstest.MapFS{
		"pdf/SKILL.md":        {Data: []byte("---\nname: pdf\ndescription: Read\n---\nText\n")},
		"pdf/scripts/x.sh":    {Data: []byte("#!/bin/sh\n")},
		"group/doc/skill.md":  {Data: []byte("---\nname: doc\ndescription: [broken\n---\nText\n")},
		"huge/SKILL.md":       {Data: make([]byte, 2<<20)},
		"a/b/c/d/e/f/g/deep":  {},
		"node_modules/x/y.md": {},
	}
	dir := t.TempDir()
	for name, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	o := knack.Origin{Kind: knack.User, Trust: knack.Trusted}
	for name, c := range map[string]struct {
		src   knack.Source
		names []string
	}{
		"Dir":  {knack.Dir(dir, o), []string{"pdf", "doc"}},
		"one":  {knack.Dir(filepath.Join(dir, "pdf"), o), []string{"pdf"}},
		"file": {knack.Dir(filepath.Join(dir, "pdf", "SKILL.md"), o), []string{"pdf"}},
		"none": {knack.Dir(filepath.Join(dir, "nothing"), o), nil},
		"Commands": {&knack.Folder{Path: dir, Commands: true, Origin: knack.Origin{Kind: knack.Legacy}},
			[]string{"pdf", "group:doc"}},
		"FS": {knack.FS(files, o), []string{"pdf", "doc"}},
	} {
		if err := TestSource(c.src, c.names...); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// wrong is a Source that violates the contract.
type wrong func(yield func(*knack.Skill, error) bool)

func (w wrong) Skills(context.Context) iter.Seq2[*knack.Skill, error] {
	return iter.Seq2[*knack.Skill, error](w)
}

func TestViolations(t *testing.T) {
	text := func(context.Context) ([]byte, error) { return []byte("text"), nil }
	good := knack.Skill{Name: "a", ID: "x:a", Origin: knack.Origin{Kind: knack.MCP}, Read: text}
	for want, src := range map[string]wrong{
		"a skill or an error": func(yield func(*knack.Skill, error) bool) { yield(nil, nil) },
		"has no kind": func(yield func(*knack.Skill, error) bool) {
			yield(&knack.Skill{Name: "a", ID: "a", Read: text}, nil)
		},
		"same ID": func(yield func(*knack.Skill, error) bool) {
			b := good
			b.Name = "b"
			_ = yield(&good, nil) && yield(&b, nil)
		},
		"cannot be read": func(yield func(*knack.Skill, error) bool) {
			b := good
			b.Read = func(context.Context) ([]byte, error) { return nil, errors.New("gone") }
			yield(&b, nil)
		},
		"lacks its code": func(yield func(*knack.Skill, error) bool) {
			yield(nil,
				knack.Problem{Message: "x"})
		},
		"does not yield the context's error": func(yield func(*knack.Skill, error) bool) { yield(&good, nil) },
		"b was not found":                    func(yield func(*knack.Skill, error) bool) { yield(&good, nil) },
	} {
		if err := TestSource(src, "b"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
