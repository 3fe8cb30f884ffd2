package audit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRotated: a file that is too large gets another name, and the chain goes on in a new one.
func TestRotated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	for i := range 40 { // each time as another program
		f := file{path: path, max: 2000}
		if err := f.append(t.Context(), []Entry{{Type: Decision, Tool: "bash"}, {Type: Decision, Tool: "read"}}); err != nil {
			t.Fatal(i, err)
		}
	}
	n := 0
	for e, wrong := range All(path) {
		if n++; wrong != nil || e.N != n {
			t.Errorf("the entry %d is %d: %v", n, e.N, wrong)
		}
	}
	old, err := rotated(path)
	if n != 80 || err != nil || len(old) < 3 {
		t.Errorf("%d entries, %d older files, %v", n, len(old), err)
	}
	if err := os.Remove(old[1]); err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, wrong := range All(path) {
		if wrong != nil {
			found += wrong.String() + "\n"
		}
	}
	if strings.Count(found, "\n") != 1 || !strings.Contains(found, "entries were removed or added") {
		t.Errorf("without the second file: %s", found)
	}
}

// TestHalfALine: a program that was killed within a line loses that line only, and it is found.
func TestHalfALine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	one := func() {
		t.Helper()
		f := file{path: path, max: maxSize}
		if err := f.append(t.Context(), []Entry{{Type: Decision, Tool: "bash"}}); err != nil {
			t.Fatal(err)
		}
	}
	one()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"n":2,"ti`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	one()
	var got []string
	for e, wrong := range All(path) {
		if wrong != nil {
			got = append(got, wrong.What)
		} else {
			got = append(got, e.Tool)
		}
	}
	if strings.Join(got, ", ") != "bash, entry: it is not complete, bash" {
		t.Errorf("%q", got)
	}
}
