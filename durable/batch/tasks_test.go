package batch

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestBadLines: every bad line of a file of tasks is reported, the last too.
func TestBadLines(t *testing.T) {
	_, err := ReadTasks(strings.NewReader(`{"prompt":"a"}
{"prompt":""}
{"prompt":"a"}

{"prompt":"b","nonsense":1}
{`))
	var bad LineErrors
	if !errors.As(err, &bad) {
		t.Fatal(err)
	}
	var lines []int
	for _, e := range bad {
		lines = append(lines, e.Line)
	}
	if fmt.Sprint(lines) != "[2 3 5 6]" || !strings.HasPrefix(bad.Text("f:", 20), "f:2: prompt is empty\nf:3: it is the same") ||
		!strings.HasSuffix(bad.Text("f:", 20), "\nf:6: the JSON object is not complete") {
		t.Errorf("%v:\n%s", lines, bad.Text("f:", 20))
	}
	if got := bad.Text("", 2); got != "2: prompt is empty\nand 2 more lines, up to\n6: the JSON object is not complete" {
		t.Errorf("two of four:\n%s", got)
	}
}
