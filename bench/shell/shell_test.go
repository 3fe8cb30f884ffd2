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
	res, err := measure(io.Discard, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res.Rows {
		if r.Time.N != 1 || r.Best <= 0 || r.CPU.Median <= 0 {
			t.Errorf("%+v", r)
		}
	}
	if len(res.Rows) != 20 {
		t.Errorf("%d rows", len(res.Rows))
	}
}
