package main

import (
	"math/rand/v2"
	"testing"
)

// TestStreams: no damaged stream ends in an outcome that is not allowed, and the faults have an effect.
func TestStreams(t *testing.T) {
	all, err := streams(rand.New(rand.NewPCG(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range all {
		if k.Failed > 0 {
			t.Errorf("%s: %d wrong: %q", k.What, k.Failed, k.Wrong)
		}
		if k.Runs != k.Errors+k.Whole+k.Another+k.Failed || k.Runs < 2 {
			t.Errorf("%+v does not add up", k)
		}
	}
}
