package eval_test

import (
	"math/rand/v2"
	"testing"

	"github.com/knack-agent/knack/eval"
)

func TestNewRate(t *testing.T) {
	for _, c := range []struct {
		hits, of  int
		low, high float64
	}{
		{0, 0, 0, 1},
		{0, 10, 0, 0.2775},
		{5, 10, 0.2366, 0.7634},
		{10, 10, 0.7225, 1},
	} {
		r := eval.NewRate(c.hits, c.of)
		if d := r.Low - c.low; d > 0.001 || d < -0.001 {
			t.Errorf("%d of %d: low %.4f, want %.4f", c.hits, c.of, r.Low, c.low)
		}
		if d := r.High - c.high; d > 0.001 || d < -0.001 {
			t.Errorf("%d of %d: high %.4f, want %.4f", c.hits, c.of, r.High, c.high)
		}
	}
}

// TestPlantedTruths draws trials from known chances over 1,000 seeds: the intervals must have the truth, and the verdict
// must be right, as often as they say.
func TestPlantedTruths(t *testing.T) {
	const seeds, trials = 1000, 10
	for _, c := range []struct {
		name          string
		cases         int
		with, without float64
		verdict       eval.Verdict
	}{
		{"helps", 5, 0.7, 0.3, eval.Helps},
		{"hurts", 5, 0.3, 0.7, eval.Hurts},
		{"makes no difference", 5, 0.7, 0.7, eval.NoEvidence},
		{"one case without a difference", 1, 0.5, 0.5, eval.NotEnough},
	} {
		covered, right, wrongSide := 0, 0, 0
		for seed := range uint64(seeds) {
			random := rand.New(rand.NewPCG(seed, 7))
			var byCase [][]float64
			for range c.cases {
				var pairs []float64
				for range trials {
					pairs = append(pairs, drawn(random, c.with)-drawn(random, c.without))
				}
				byCase = append(byCase, pairs)
			}
			d := eval.Compare(eval.Without, byCase, seed)
			if truth := c.with - c.without; d.Low <= truth && truth <= d.High {
				covered++
			}
			switch {
			case d.Verdict == c.verdict:
				right++
			case d.Verdict == eval.Hurts && c.with >= c.without, d.Verdict == eval.Helps && c.with <= c.without:
				wrongSide++
			}
		}
		t.Logf("%s: covered %d, right %d, on the wrong side %d of %d", c.name, covered, right, wrongSide, seeds)
		if covered < seeds*93/100 {
			t.Errorf("%s: the interval has the truth in %d of %d", c.name, covered, seeds)
		}
		if right < seeds*90/100 {
			t.Errorf("%s: the verdict is right in %d of %d", c.name, right, seeds)
		}
		if wrongSide > seeds*4/100 {
			t.Errorf("%s: the verdict is the opposite in %d of %d", c.name, wrongSide, seeds)
		}
	}
}

func drawn(random *rand.Rand, chance float64) float64 {
	if random.Float64() < chance {
		return 1
	}
	return 0
}

// TestRateCovers is the same for the interval of one chance.
func TestRateCovers(t *testing.T) {
	const seeds = 1000
	for _, chance := range []float64{0.7, 0.2} {
		covered := 0
		for seed := range uint64(seeds) {
			random := rand.New(rand.NewPCG(seed, 3))
			hits := 0
			for range 60 {
				hits += int(drawn(random, chance))
			}
			if r := eval.NewRate(hits, 60); r.Low <= chance && chance <= r.High {
				covered++
			}
		}
		if covered < seeds*93/100 {
			t.Errorf("%.1f: the interval has the truth in %d of %d", chance, covered, seeds)
		}
	}
}

func TestWorse(t *testing.T) {
	for _, c := range []struct {
		hits, of, before, ofBefore int
		worse                      bool
	}{
		{3, 10, 9, 10, true},
		{8, 10, 9, 10, false},
		{9, 10, 3, 10, false},
		{0, 0, 9, 10, false},
	} {
		if got := eval.NewRate(c.hits, c.of).Worse(eval.NewRate(c.before, c.ofBefore)); got != c.worse {
			t.Errorf("%+v: %t", c, got)
		}
	}
}
