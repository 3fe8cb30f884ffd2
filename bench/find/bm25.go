package main

import (
	"math"
	"slices"
	"strings"
	"unicode"
)

// A bm25 is the baseline for Find: one bag of words per skill, with fields weighted by
// repeating their words, and BM25 with k1 = 1.2 and b = 0.75. A final s, ed or ing is removed;
// Chinese and Japanese text is split into pairs of characters.
type bm25 struct {
	names   []string
	posting map[string][]posting
	length  []float64
	average float64
}

type posting struct {
	doc int
	n   float64
}

func newBM25(pool []text, name, description, body float64) *bm25 {
	x := &bm25{posting: map[string][]posting{}}
	for i, t := range pool {
		x.names = append(x.names, t.name)
		count := map[string]float64{}
		length := 0.0
		for _, f := range []struct {
			text   string
			weight float64
		}{{t.name, name}, {t.description, description}, {t.body, body}} {
			for _, w := range words(f.text) {
				count[w] += f.weight
				length += f.weight
			}
		}
		for w, n := range count {
			x.posting[w] = append(x.posting[w], posting{i, n})
		}
		x.length = append(x.length, length)
		x.average += length / float64(len(pool))
	}
	return x
}

func (x *bm25) find(query string) ([]string, error) {
	const k1, b = 1.2, 0.75
	score := make([]float64, len(x.names))
	for _, w := range words(query) {
		list := x.posting[w]
		df, n := float64(len(list)), float64(len(x.names))
		idf := math.Log(1 + (n-df+.5)/(df+.5))
		for _, p := range list {
			score[p.doc] += idf * p.n * (k1 + 1) / (p.n + k1*(1-b+b*x.length[p.doc]/x.average))
		}
	}
	order := make([]int, len(score))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case score[i] > score[j]:
			return -1
		case score[i] < score[j]:
			return 1
		}
		return 0
	})
	var found []string
	for _, i := range order[:min(10, len(order))] {
		if score[i] > 0 {
			found = append(found, x.names[i])
		}
	}
	return found, nil
}

func words(s string) (all []string) {
	for _, run := range strings.FieldsFunc(strings.ToLower(s),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		var wide []rune
		plain := strings.Builder{}
		for _, r := range run {
			if r >= 0x2e80 {
				wide = append(wide, r)
			} else {
				plain.WriteRune(r)
			}
		}
		for i := 0; i+1 < len(wide); i++ {
			all = append(all, string(wide[i:i+2]))
		}
		if w := plain.String(); w != "" {
			for _, end := range []string{"ing", "ed", "s"} {
				if short, ok := strings.CutSuffix(w, end); ok && len(short) > 2 {
					w = short
					break
				}
			}
			all = append(all, w)
		}
	}
	return all
}
