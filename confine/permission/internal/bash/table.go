package bash

import (
	"strings"
	"sync"
)

// The tables in which a command is looked up by its name, in this order; a program may be in several:
//
//	queries     uses of a program that only report something: go version
//	runners     programs that run the command in their words: timeout, npx, docker exec, and what can run anything
//	readers     programs that only read the files in their words: cat, grep
//	writers     programs that write the files in their words: cp, tar
//	programs    options of the others that run other code or write elsewhere: make -f, go build -o
//	gitPrograms the same for git's subcommands; gitQueries are those that only read
//
// A program that is in none of them needs a rule, which covers all its options but those for output. So a program needs
// a row only if it is harmless without a rule, or if it has options that do more than a rule for it should cover.
//
// A table describes programs by name. It is indexed when it is first used, so that it costs nothing at start-up.
type table[T any] struct {
	names func(*T) string // the names of the programs that a row describes, separated by spaces
	rows  []T

	once  sync.Once
	index map[string][]*T
}

// all returns the rows of a program, in the order of the table.
func (t *table[T]) all(program string) []*T {
	t.once.Do(func() {
		t.index = map[string][]*T{}
		for i := range t.rows {
			for name := range strings.FieldsSeq(t.names(&t.rows[i])) {
				t.index[name] = append(t.index[name], &t.rows[i])
			}
		}
	})
	return t.index[program]
}

// row returns the row of a program in a table that has at most one for each, or nil.
func (t *table[T]) row(program string) *T {
	if rows := t.all(program); len(rows) > 0 {
		return rows[0]
	}
	return nil
}

// listed reports whether a list, whose words are separated by spaces, contains a word.
func listed(list, word string) bool {
	for entry := range strings.FieldsSeq(list) {
		if entry == word {
			return true
		}
	}
	return false
}
