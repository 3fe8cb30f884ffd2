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

// oneToken contains words that are one token each after a blank in the common byte pair
// vocabularies: short, frequent English words without capitals.
var oneToken = [...]string{
	"the", "a", "and", "of", "to", "in", "is", "that", "it", "was", "for", "on", "are", "as", "with", "his", "they",
	"at", "be", "this", "from", "have", "or", "by", "one", "had", "not", "but", "what", "all", "were", "when", "we",
	"there", "can", "an", "your", "which", "their", "said", "if", "do", "will", "each", "about", "how", "up", "out",
	"them", "then", "she", "many", "some", "so", "these", "would", "other", "into", "has", "more", "her", "two",
	"like", "him", "see", "time", "could", "no", "make", "than", "first", "been", "its", "who", "now", "people",
	"my", "made", "over", "did", "down", "only", "way", "find", "use", "may", "water", "long", "little", "very",
	"after", "words", "called", "just", "where", "most", "know",
}

// loremIpsum returns a text of exactly as many tokens as its argument says, made of
// one-token words separated by single blanks.
func loremIpsum(ctx context.Context, in knack.Invocation) (string, error) {
	n := defaultTokens
	if arg := strings.TrimSpace(in.Args); arg != "" {
		var err error
		if n, err = strconv.Atoi(strings.ReplaceAll(arg, ",", "")); err != nil {
			return "", fmt.Errorf("%.40q is not a number of tokens: type /lorem-ipsum 2000", arg)
		}
	}
	if n < 1 || n > maxTokens {
		return "", errors.New("the number of tokens is from 1 to " + strconv.Itoa(maxTokens))
	}
	var b strings.Builder
	// A step that shares no factor with the length visits every word, and does
	// not repeat a sentence before all have been used.
	at := 0
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(oneToken[at])
		at = (at + 37 + i/len(oneToken)) % len(oneToken)
	}
	return b.String(), ctx.Err()
}
