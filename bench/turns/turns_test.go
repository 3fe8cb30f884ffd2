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
	res, err := measure(&out, []int{2}, 6000, 2, 3)
	if err != nil {
		t.Fatal(err)
	}
	// Two calls, then one request, and three requests in each of three rounds.
	if r := res.Turns[0]; r.CPU.N != 2 || r.Bytes < 11*600 || r.Bytes > 12*1000 {
		t.Errorf("%+v", r)
	}
	if res.Log < 2000*600 || res.Open.N != 2 {
		t.Errorf("%+v", res)
	}
	for i := 0; i+1 < len(res.Threads); i += 2 {
		if whole, short := res.Threads[i], res.Threads[i+1]; short.Bytes*8 > whole.Bytes || short.Refused > 0 {
			t.Errorf("%+v, %+v", whole, short)
		}
	}
	// What the model sees of a session is in memory twice, as entries and as it was sent: 1.8 and 2.6 times the size of
	// the file in a session without a compaction.
	if res.Heap > res.Log*22/10 || res.Sent > res.Log*3 {
		t.Errorf("a file of %d bytes takes %d of the heap, and %d after a request", res.Log, res.Heap, res.Sent)
	}
}
