package main

import (
	"io"
	"runtime"
	"testing"
)

func TestMeasure(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("true and sh are not installed")
	}
	if _, err := git(".", "rev-parse", "--show-toplevel"); err != nil {
		t.Skip("not tested: this is no git repository:", err)
	}
	res, err := measure(io.Discard, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res.Rows {
		if r.Time.N != 1 || r.Best <= 0 || r.CPU.Median <= 0 {
			t.Errorf("%+v", r)
		}
	}
	if len(res.Rows) != 18 {
		t.Errorf("%d rows", len(res.Rows))
	}
}
