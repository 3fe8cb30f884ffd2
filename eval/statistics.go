package eval

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

const (
	z95       = 1.959964 // of the normal distribution, for an interval at 95%
	resamples = 1000     // of a bootstrap
	minPairs  = 5        // with fewer, even results that never differ can be chance
	matters   = 0.25     // half the width of an interval up to which a difference that matters would have shown
)

// NewRate returns the share of hits with its Wilson interval at 95%.
func NewRate(hits, of int) Rate {
	if of <= 0 {
		return Rate{High: 1}
	}
	n, p := float64(of), float64(hits)/float64(of)
	mid := (p + z95*z95/(2*n)) / (1 + z95*z95/n)
	half := z95 / (1 + z95*z95/n) * math.Sqrt(p*(1-p)/n+z95*z95/(4*n*n))
	return Rate{Hits: hits, Of: of, Rate: p, Low: max(0, mid-half), High: min(1, mid+half)}
}

// Compare sums up the differences of pairs of trials, those of each case in a slice of its own, and draws the bootstrap
// interval of their mean with the seed: equal arguments give equal results. Each difference is from -1 to 1.
//
// Pairs are drawn again within their case, because the cases are those that the author chose. Few pairs show less than
// their true spread, so deviations are scaled by n/(n-1), the interval is as wide as Student's t asks, and two further
// pairs, one for each side, stand for what was not seen: pairs that never differ prove no certainty.
func Compare(to Config, byCase [][]float64, seed uint64) Difference {
	d := Difference{To: to}
	sum := 0.0
	for _, pairs := range byCase {
		d.Pairs += len(pairs)
		for _, x := range pairs {
			sum += x
		}
	}
	if d.Pairs == 0 {
		d.Low, d.High, d.Verdict = -1, 1, NotMeasurable
		d.Why = "no check counts in both configurations"
		return d
	}
	n := float64(d.Pairs)
	d.Mean = sum / n
	deviations, freedom := deviationsOf(byCase, d.Mean)
	random := rand.New(rand.NewPCG(seed, 0x6576616c))
	means := make([]float64, resamples)
	for i := range means {
		total := 0.0
		for _, stratum := range deviations {
			for range stratum {
				total += stratum[random.IntN(len(stratum))]
			}
		}
		unseen := float64(random.IntN(2)*2-1) + float64(random.IntN(2)*2-1)
		means[i] = total/n + unseen/(n+2)
	}
	slices.Sort(means)
	spread := studentT(freedom) / z95
	low := quantile(means, 0.025) * spread
	high := quantile(means, 0.975) * spread
	d.Low, d.High = max(-1, d.Mean+low), min(1, d.Mean+high)
	d.Verdict = verdict(d)
	if d.Verdict == NotEnough {
		d.Why = fmt.Sprintf("%d pairs of trials are too few to tell: about %d would be enough", d.Pairs,
			enough(deviations, d.Pairs))
	}
	return d
}

func verdict(d Difference) Verdict {
	switch {
	case d.Pairs < minPairs:
		return NotEnough
	case d.Low > 0:
		return Helps
	case d.High < 0:
		return Hurts
	case d.High-d.Low <= 2*matters:
		return NoEvidence
	}
	return NotEnough
}

// deviationsOf returns what each pair differs from the mean of its case, scaled, and the degrees of freedom. Cases with
// one pair form a stratum together.
func deviationsOf(byCase [][]float64, mean float64) (strata [][]float64, freedom int) {
	var single []float64
	for _, pairs := range byCase {
		switch n := float64(len(pairs)); len(pairs) {
		case 0:
		case 1:
			single = append(single, pairs[0]-mean)
		default:
			of := 0.0
			for _, x := range pairs {
				of += x / n
			}
			stratum := make([]float64, len(pairs))
			for i, x := range pairs {
				stratum[i] = (x - of) * math.Sqrt(n/(n-1))
			}
			strata = append(strata, stratum)
			freedom += len(pairs) - 1
		}
	}
	if len(single) > 0 {
		strata = append(strata, single)
		freedom += len(single) - 1
	}
	return strata, max(freedom, 2)
}

// enough estimates how many pairs make the interval as narrow as a difference that matters.
func enough(strata [][]float64, pairs int) int {
	squares := 2.0 // of the two pairs that stand for what was not seen
	for _, stratum := range strata {
		for _, x := range stratum {
			squares += x * x
		}
	}
	deviation := math.Sqrt(squares / float64(pairs+2))
	return max(minPairs, pairs+1, int(math.Ceil(math.Pow(z95*deviation/matters, 2))))
}

// studentT returns the 97.5% quantile of Student's t-distribution, which bounds an interval at 95%. It uses the
// Cornish-Fisher expansion.
func studentT(freedom int) float64 {
	n, z := float64(freedom), z95
	z3, z5, z7 := z*z*z, math.Pow(z, 5), math.Pow(z, 7)
	return z + (z3+z)/(4*n) + (5*z5+16*z3+3*z)/(96*n*n) + (3*z7+19*z5+17*z3-15*z)/(384*n*n*n)
}

func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
