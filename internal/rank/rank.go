// Package rank finds the texts that fit a query best, by words alone: no
// model, no network. An index is a file of about an eighth of the texts' size,
// and answers in about a millisecond over ten thousand of them.
//
// A [Builder] makes an index; [Open] reads one; [Search] ranks the documents of
// one or several. A document has fields that count differently ([Field]), and
// each field's frequencies saturate on their own, after BM25 (Robertson and
// Zaragoza, "The Probabilistic Relevance Framework", 2009). Words are compared
// without letter case, accents and English endings; CamelCase is taken apart;
// scripts that put nothing between words are compared by pairs of characters.
//
// An index is untrusted input: a damaged one gives other ranks or an error,
// never a panic.
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
	Files // names of files
	fields
)

// How a field counts: its weight, how much its length matters (b of BM25), the
// number of occurrences at which it reaches half its weight (k1), and the
// length in words that is taken as usual. Chosen on prompts that authors wrote
// for their own skills; half of these were kept apart for measuring.
var fieldParams = [fields]struct{ weight, b, k, length float64 }{
	Name:    {2, 1, 1.2, 4},
	Summary: {1.6, .45, 1.2, 40},
	Heading: {.18, 1, 1.2, 60},
	Body:    {.5, .75, 1.2, 900},
	Files:   {.2, .75, 1.2, 8},
}

const (
	repeatK   = 1.6 // how fast repeating a word in the query stops to count
	idfPower  = .7  // rare words count more, but not as much more as their idf
	coverage  = .5  // how much it counts that many of the query's words are found
	wholeName = 1.1 // how much it counts that the query has all words of a name
)

// A Hit is a document that was found.
type Hit struct {
	Index int // of those that were searched
	Doc   int // of the index, in the order in which they were added
	Score float64
	// Share reports how much of the query was found in the document, from 0 to 1:
	// rare words count more.
	Share float64
}

// Search returns at most n documents that have words of the query, the best
// first. ok, if not nil, says which documents count. Of a query only the first
// 8 KiB are looked at.
func Search(in []*Index, query string, n int, ok func(index, doc int) bool) []Hit {
	if n <= 0 {
		return nil
	}
	s := searching{in: in, docs: make([][]found, len(in))}
	for i, x := range in {
		s.docs[i] = make([]found, x.docs)
		s.total += float64(x.docs)
	}
	for _, t := range queryTerms(query) {
		s.add(t, true)
	}
	return s.best(n, ok)
}

// A found is what a document has of a query.
type found struct {
	score, share float32
	name         float32 // of the words in its name
	names        uint8   // how many these are
}

type searching struct {
	in    []*Index
	docs  [][]found
	total float64 // number of documents
	sum   float64 // of the weights of all words
	buf   []byte
}

// add scores the documents that have a word; one that none has may be
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
	var hits []Hit // sorted
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

// near returns the terms of the indexes that a misspelt word may be: one letter
// more, less, other, or two exchanged.
func (s *searching) near(word string) (hashes []uint32) {
	const most = 4
	try := func(w []byte) {
		h := hash(stem(string(w)))
		if len(hashes) < most && !slices.Contains(hashes, h) &&
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
