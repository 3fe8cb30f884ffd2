// Package rank finds the texts that match a query best. It compares words only; it uses no
// model and no network. An index is a file of about an eighth of the texts' size; a search
// over ten thousand texts takes about a millisecond.
//
// A [Builder] builds an index; [Open] opens one; [Search] ranks the documents of one or more
// indexes. The fields of a document have different weights ([Field]), and the word frequencies
// of each field saturate separately, following BM25 (Robertson and Zaragoza, "The
// Probabilistic Relevance Framework", 2009). Words are compared without letter case, accents
// and English endings; CamelCase words are split; scripts without spaces between words are
// compared by pairs of characters.
//
// An index is untrusted input: a damaged one leads to other ranks or an error, never to a
// panic.
package rank

import (
	"math"
	"slices"
)

// A Field is a part of a document.
type Field uint8

const (
	Name Field = iota
	Summary
	Heading
	Body
	Files // file names
	fields
)

// Parameters of a field: its weight, how much its length matters (b of BM25), the number of
// occurrences that gives half of its weight (k1), and its usual length in words. They were
// tuned on prompts that authors wrote for their own skills, half of which were set aside for
// measuring.
var fieldParams = [fields]struct{ weight, b, k, length float64 }{
	Name:    {2, 1, 1.2, 4},
	Summary: {1.6, .45, 1.2, 40},
	Heading: {.18, 1, 1.2, 60},
	Body:    {.5, .75, 1.2, 900},
	Files:   {.2, .75, 1.2, 8},
}

const (
	repeatK   = 1.6 // saturation of words repeated in the query
	idfPower  = .7  // exponent of idf: rare words count more, but less than idf would suggest
	coverage  = .5  // weight of the share of the query's words that are found
	wholeName = 1.1 // bonus for a document whose whole name is in the query
)

// A Hit is a document found by [Search].
type Hit struct {
	Index int // which of the indexes searched
	Doc   int // number of the document in its index, in the order of Builder.End
	Score float64
	// Share is how much of the query was found in the document, from 0 to 1. Rare words count
	// more.
	Share float64
}

// Search returns at most n documents that contain words of the query, best first. If ok is not
// nil, only documents for which it returns true are considered. Only the first 8 KiB of the
// query are used.
func Search(in []*Index, query string, n int, ok func(index, doc int) bool) []Hit {
	if n <= 0 {
		return nil
	}
	s := searching{in: in, docs: make([][]docScore, len(in))}
	for i, x := range in {
		s.docs[i] = make([]docScore, x.docs)
		s.total += float64(x.docs)
	}
	for _, t := range queryTerms(query) {
		s.add(t, true)
	}
	return s.best(n, ok)
}

// A docScore contains what a search has computed for one document so far.
type docScore struct {
	score, share float32
	name         float32 // sum of the idf of the query's words in its name
	names        uint8   // number of these words
}

type searching struct {
	in    []*Index
	docs  [][]docScore
	total float64 // number of documents
	sum   float64 // sum of the shares of all words
	buf   []byte
}

// add scores the documents that contain a word. A word that no document contains may be
// misspelt.
func (s *searching) add(t queryTerm, spell bool) {
	lists := make([]list, 0, len(s.in))
	df := 0.0
	for i, x := range s.in {
		l, ok := x.list(t.hash, &s.buf)
		if ok {
			l.index = i
			lists = append(lists, l)
			df += float64(l.count)
		}
	}
	if df == 0 && spell && t.word != "" {
		for _, near := range s.near(t.word) {
			s.add(queryTerm{hash: near, weight: t.weight / 2}, false)
		}
		return
	}
	idf := math.Pow(math.Log(1+(s.total-min(df, s.total)+.5)/(df+.5)), idfPower)
	share := idf * min(1, t.weight)
	s.sum += share
	w := float32(idf * t.weight * (repeatK + 1) / (t.weight + repeatK))
	for _, l := range lists {
		docs := s.docs[l.index]
		l.each(len(docs), func(doc int, impact uint8) {
			d := &docs[doc]
			d.score += w * impacts[impact&^inName]
			d.share += float32(share)
			if impact&inName != 0 {
				d.name += float32(idf)
				d.names++
			}
		})
	}
}

func (s *searching) best(n int, ok func(index, doc int) bool) []Hit {
	var hits []Hit // sorted, best first
	for i, docs := range s.docs {
		for doc := range docs {
			d := &docs[doc]
			if d.score == 0 {
				continue
			}
			share := float64(d.share) / s.sum
			score := float64(d.score) * (1 + coverage*share)
			if d.names > 0 && d.names >= s.in[i].nameTerms(doc) {
				score += wholeName * float64(d.name)
			}
			if len(hits) == n && score <= hits[n-1].Score || ok != nil && !ok(i, doc) {
				continue
			}
			at, _ := slices.BinarySearchFunc(hits, score, func(h Hit, score float64) int {
				if h.Score >= score {
					return -1
				}
				return 1
			})
			hits = slices.Insert(hits[:min(len(hits), n-1)], at, Hit{i, doc, score, share})
		}
	}
	return hits
}

// near returns the terms of the indexes that a misspelt word may stand for: one letter
// missing, added or different, or two letters swapped.
func (s *searching) near(word string) (hashes []uint32) {
	const limit = 4
	try := func(w []byte) {
		h := hash(stem(string(w)))
		if len(hashes) < limit && !slices.Contains(hashes, h) &&
			slices.ContainsFunc(s.in, func(x *Index) bool { return x.has(h) }) {
			hashes = append(hashes, h)
		}
	}
	b := make([]byte, 0, len(word)+1)
	for i := 1; i < len(word); i++ { // the first letter is rarely wrong
		try(append(append(b[:0], word[:i]...), word[i+1:]...))
		if i+1 < len(word) {
			b = append(b[:0], word...)
			b[i], b[i+1] = b[i+1], b[i]
			try(b)
		}
	}
	for i := 1; i <= len(word); i++ {
		for c := byte('a'); c <= 'z'; c++ {
			try(append(append(append(b[:0], word[:i]...), c), word[i:]...))
			if i < len(word) {
				b = append(b[:0], word...)
				b[i] = c
				try(b)
			}
		}
	}
	return hashes
}
