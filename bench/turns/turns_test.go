package main

import (
	"os"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv(serving) != "" {
		serve()
	}
	os.Exit(m.Run())
}

func TestMeasure(t *testing.T) {
	var out strings.Builder
	res, err := measure(&out, []int{2}, 20, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	// Two calls, then one request, and three requests in each of three rounds.
	if r := res.Turns[0]; r.CPU.N != 2 || r.Bytes < 11*600 || r.Bytes > 12*1000 {
		t.Errorf("%+v", r)
	}
	if res.Log < 10*600 || res.Open.N != 2 {
		t.Errorf("%+v", res)
	}
}
