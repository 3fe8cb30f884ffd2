package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

// TestOpenPipe: a prompt does not wait for a pipe to which nobody writes, and one that has begun is read to its end.
func TestOpenPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	var errs bytes.Buffer
	in, err := prompt(r, []string{"hello"}, &errs, time.Millisecond)
	if err != nil || in.Text != "hello" || !strings.Contains(errs.String(), "nothing came through standard input in 1ms") {
		t.Errorf("%q, %v, %q", in.Text, err, &errs)
	}
	errs.Reset()
	in, err = prompt(strings.NewReader("piped\n"), []string{"hello"}, &errs, time.Hour)
	if err != nil || in.Text != "piped\n\nhello" || errs.Len() > 0 {
		t.Errorf("%q, %v, %q", in.Text, err, &errs)
	}
}
