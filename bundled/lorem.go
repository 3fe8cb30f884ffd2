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

// oneToken lists words that the common byte pair vocabularies encode as one token each when a
// space precedes them: short, frequent English words in lower case.
var oneToken = [...]string{
	"the", "a", "and", "of", "to", "in", "is", "that", "it", "was", "for", "on", "are", "as", "with", "his", "they",
	"at", "be", "this", "from", "have", "or", "by", "one", "had", "not", "but", "what", "all", "were", "when", "we",
	"there", "can", "an", "your", "which", "their", "said", "if", "do", "will", "each", "about", "how", "up", "out",
	"them", "then", "she", "many", "some", "so", "these", "would", "other", "into", "has", "more", "her", "two",
	"like", "him", "see", "time", "could", "no", "make", "than", "first", "been", "its", "who", "now", "people",
	"my", "made", "over", "did", "down", "only", "way", "find", "use", "may", "water", "long", "little", "very",
	"after", "words", "called", "just", "where", "most", "know",
}

// loremIpsum returns a text of exactly as many tokens as its argument demands: words of oneToken,
// separated by single spaces.
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
	var b strings.Builder
	// The step from word to word changes with every len(oneToken) words, so that one pass over the
	// words differs from the next.
	at := 0
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(oneToken[at])
		at = (at + 1 + (36+i/len(oneToken))%(len(oneToken)-1)) % len(oneToken)
	}
	return knack.TextPart(b.String()), ctx.Err()
}
