package bundled

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/knack-agent/knack"
)

// Limits of lorem-ipsum, in tokens.
const (
	defaultTokens = 1000
	maxTokens     = 500_000
)

// fillers are short, frequent English words, which the vocabularies of models encode as one token each when a space
// precedes them.
var fillers = [...]string{
	"the", "a", "and", "of", "to", "in", "is", "that", "it", "was", "for", "on", "are", "as", "with", "his", "they",
	"at", "be", "this", "from", "have", "or", "by", "one", "had", "not", "but", "what", "all", "were", "when", "we",
	"there", "can", "an", "your", "which", "their", "said", "if", "do", "will", "each", "about", "how", "up", "out",
	"them", "then", "she", "many", "some", "so", "these", "would", "other", "into", "has", "more", "her", "two",
	"like", "him", "see", "time", "could", "no", "make", "than", "first", "been", "its", "who", "now", "people",
	"my", "made", "over", "did", "down", "only", "way", "find", "use", "may", "water", "long", "little", "very",
	"after", "words", "called", "just", "where", "most", "know",
}

// last has two words of each length up to 8 letters, for the end of a text.
var last = [...][2]string{{"a", "I"}, {"of", "so"}, {"the", "and"}, {"that", "with"}, {"there", "about"},
	{"should", "before"}, {"between", "through"}, {"together", "children"}}

// loremIpsum returns a text of exactly as many tokens as its argument demands, as [knack.EstimateTokens] counts them:
// fillers separated by single spaces, and a last word that fits.
func loremIpsum(ctx context.Context, in knack.Invocation) ([]knack.Part, error) {
	n := defaultTokens
	if arg := strings.TrimSpace(in.Args); arg != "" {
		var err error
		if n, err = strconv.Atoi(strings.ReplaceAll(arg, ",", "")); err != nil {
			return nil, fmt.Errorf("%.40q is not a number of tokens: type /lorem-ipsum 2000", arg)
		}
	}
	if n < 1 || n > maxTokens {
		return nil, errors.New("the number of tokens is from 1 to " + strconv.Itoa(maxTokens))
	}
	const bytesPerToken = 4 // see knack.EstimateTokens
	var b strings.Builder
	b.Grow(n * bytesPerToken)
	// The step from word to word changes with every len(fillers) words, so that one pass over the
	// words differs from the next.
	before, at := "", 0
	for i := 0; ; i++ {
		word := fillers[at]
		rest := n*bytesPerToken - b.Len() - len(word)
		if i > 0 {
			rest--
		}
		if rest < 2 { // no room for another word after this one
			break
		}
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
		before = word
		at = (at + 1 + (36+i/len(fillers))%(len(fillers)-1)) % len(fillers)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	fits := last[n*bytesPerToken-b.Len()-1]
	if fits[0] == before {
		fits[0] = fits[1]
	}
	b.WriteString(fits[0])
	return knack.TextPart(b.String()), ctx.Err()
}
