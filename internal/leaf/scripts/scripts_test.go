package scripts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRewrite: only the word that runs a movable script is replaced.
func TestRewrite(t *testing.T) {
	all := []Script{
		{Name: "/w/run.sh", Data: []byte("echo\n")},
		{Name: "/w/a b/it's.sh", Data: []byte("#!/bin/sh\necho\n")},
		{Name: "/w/self.sh", Data: []byte("cd \"$(dirname \"$0\")\"\n")},
		{Name: "/w/data.csv", Data: []byte("1,2\n")},
		{Name: "/w/prog", Data: []byte("\x7fELF\x00")},
	}
	for _, c := range []struct{ line, want, inPlace string }{
		{"sh run.sh x", "sh '/c/run.sh' x", ""},
		{"sh './run.sh' && bash -x /w/run.sh; sh ../w/run.sh", "sh '/c/run.sh' && bash -x '/c/run.sh'; sh '/c/run.sh'", ""},
		{"timeout 5 sh run.sh | tee run.sh", "timeout 5 sh '/c/run.sh' | tee run.sh", ""},
		{`cd "a b" && ./it\'s.sh`, `cd "a b" && '/c/it'\''s.sh'`, ""},
		{`"${ROOT}"/run.sh "$ROOT"`, `"${ROOT}"/run.sh "$ROOT"`, "/w/run.sh"}, // no first line names the interpreter
		{`"$ROOT"/a\ b/it\'s.sh`, `'/c/it'\''s.sh'`, ""},
		{`sh "${ROOT}/run.sh"`, `sh '/c/run.sh'`, ""},
		{`sh $ROOT/run.sh`, `sh '/c/run.sh'`, ""},
		{`ROOT=/x; sh $ROOT/run.sh`, `ROOT=/x; sh $ROOT/run.sh`, "/w/run.sh"},
		{`for ROOT in /x; do sh $ROOT/run.sh; done`, `for ROOT in /x; do sh $ROOT/run.sh; done`, "/w/run.sh"},
		{`export ROOT=/x; sh $ROOT/run.sh`, `export ROOT=/x; sh $ROOT/run.sh`, "/w/run.sh"},
		{`read ROOT; sh $ROOT/run.sh`, `read ROOT; sh $ROOT/run.sh`, "/w/run.sh"},
		{`sh $OTHER/run.sh`, `sh $OTHER/run.sh`, "/w/run.sh"},
		{`sh self.sh`, `sh self.sh`, "/w/self.sh"},
		{`./prog`, `./prog`, "/w/prog"},
		{`cat run.sh`, `cat run.sh`, "/w/run.sh"},
		{`sh run.sh ./data.csv`, `sh '/c/run.sh' ./data.csv`, ""},
		{`(`, `(`, "/w/run.sh"},
	} {
		var given []Script
		for _, s := range all {
			if strings.Contains(c.line, filepath.Base(s.Name)) || strings.Contains(c.inPlace, s.Name) ||
				strings.Contains(c.line, "it") && strings.Contains(s.Name, "it's") {
				if s.Name != "/w/data.csv" {
					given = append(given, s)
				}
			}
		}
		got, inPlace, err := Rewrite(c.line, "/w", []string{"ROOT=/w"}, given,
			func(s Script) (string, error) { return "/c/" + filepath.Base(s.Name), nil })
		var names []string
		for _, s := range inPlace {
			names = append(names, s.Name)
		}
		if err != nil || got != c.want || strings.Join(names, " ") != c.inPlace {
			t.Errorf("%s\n got %s in place %q %v\nwant %s in place %q", c.line, got, names, err, c.want, c.inPlace)
		}
	}
	words, inPlace, err := RewriteArgs([]string{"sh", "/w/run.sh", "run.sh"}, "/w", all[:1],
		func(Script) (string, error) { return "/c", nil })
	if err != nil || strings.Join(words, " ") != "sh /c run.sh" || len(inPlace) > 0 {
		t.Error(words, inPlace, err)
	}
}

// TestMovable: a script that may use its own location, or load files next to it, is not moved.
func TestMovable(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"helper.py", "pkg/x"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]bool{
		"sh: echo $1 \"$@\"":                       true,
		"sh: . ./lib.sh":                           true, // relative to the working directory
		"sh: dirname $0":                           false,
		"sh: echo ${0##*/}":                        false,
		"bash: cd ${BASH_SOURCE%/*}":               false,
		"zsh: echo":                                false,
		": #!/bin/sh\necho":                        true,
		": #!/usr/bin/env -S LANG=C bash -e\necho": true,
		": #!/usr/bin/env python3\nimport sys, json as j\n": true,
		": #!/usr/bin/env node\n1":                          false,
		": echo":                                            false,
		": \x7fELF\x00":                                     false,
		"python3: import os\nfrom json import load\n":       true,
		"python3: import os, helper\n":                      false,
		"python3: if 1: import pkg.x\n":                     false,
		"python3: from helper import x\n":                   false,
		"python3: from . import x\n":                        false,
		"/usr/bin/python3.12: open(__file__)":               false,
		"node: console.log(1)":                              false,
	} {
		runs, data, _ := strings.Cut(text, ": ")
		if strings.HasPrefix(text, ": ") {
			runs = ""
		}
		s := Script{Name: filepath.Join(dir, "s"), Data: []byte(data)}
		if got := s.Movable(runs); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
