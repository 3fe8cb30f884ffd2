package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/clipperhouse/displaywidth"
)

// TestWriteList: elements are written as they arrive, and the whole output is an array.
func TestWriteList(t *testing.T) {
	for _, n := range []int{0, 1, 300} {
		var b bytes.Buffer
		element := strings.Repeat("x", 1000)
		err := writeList(&b, func(yield func(map[string]any) bool) {
			for i := range n {
				if behind := i*1000 - b.Len(); behind > 8<<10 {
					t.Fatalf("%d bytes are held back", behind)
				}
				if !yield(map[string]any{"i": i, "text": element + "<>&"}) {
					return
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		var back []map[string]any
		if err := json.Unmarshal(b.Bytes(), &back); err != nil || len(back) != n {
			t.Errorf("%d elements: %v, %d decoded", n, err, len(back))
		}
		var whole bytes.Buffer
		if err := writeJSON(&whole, append([]map[string]any{}, back...)); err != nil || whole.String() != b.String() {
			t.Errorf("%d elements: %v, differs from writeJSON's output", n, err)
		}
	}
}

// TestFitTable: a table fits the terminal; it loses columns before names.
func TestFitTable(t *testing.T) {
	for width := 1; width < 130; width++ {
		rows := [][]string{
			{"NAME", "SOURCE", "STATE", "TOKENS", "USED", "DESCRIPTION"},
			{"pdf", "user", "active", "10+2000", "2026-11-22", strings.Repeat("word ", 40)},
			{"表格", "user", "active", "1+1", "-", strings.Repeat("说明", 60)},
			{"a-longer-name", "project", "untrusted", "8+10", "-", "Short"},
		}
		var b bytes.Buffer
		writeTable(&b, fitTable(rows, width))
		for line := range strings.Lines(b.String()) {
			line = strings.TrimRight(line, "\n")
			if n := displaywidth.String(line); n > max(width, len("a-longer-name")) {
				t.Fatalf("width %d: %d columns: %q", width, n, line)
			}
		}
		for _, name := range []string{"pdf", "a-longer-name"} {
			if !strings.Contains(b.String(), name) {
				t.Fatalf("width %d: %s is missing", width, name)
			}
		}
		if got := strings.Contains(b.String(), "TOKENS"); width > 100 && !got || width < 50 && got {
			t.Errorf("width %d: token column shown: %v\n%s", width, got, b.String())
		}
	}
	if got := fmt.Sprint(terminalWidth(&bytes.Buffer{})); got != "0" {
		t.Errorf("the width of a buffer is %s", got)
	}
}
