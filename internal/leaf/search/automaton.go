package search

import (
	"bytes"
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

// classes groups the runes that a program does not distinguish into as few classes as
// possible. Class 0 is the line break.
type classes struct {
	ascii  [256]uint16 // class of each ASCII byte; odd for other bytes and '\r'
	odd    uint16      // class of bytes that need a closer look; it has no transitions
	bounds []rune      // start of each range, ascending
	of     []uint16    // class of each range
	reps   []rune      // one rune of each class
	words  bool        // the program uses \b or \B
}

func isWord(r rune) bool {
	return '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || r == '_' || 'a' <= r && r <= 'z'
}

// newClasses returns nil if the program has too many classes.
func newClasses(prog *syntax.Prog, keepCR bool) *classes {
	c := &classes{}
	bounds := map[rune]bool{0: true, '\n': true, '\n' + 1: true}
	span := func(lo, hi rune) { bounds[lo], bounds[hi+1] = true, true }
	var tests []*syntax.Inst // the distinct sets of runes
	seen := map[string]bool{}
	for i := range prog.Inst {
		inst := &prog.Inst[i]
		switch inst.Op {
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&(syntax.EmptyWordBoundary|syntax.EmptyNoWordBoundary) != 0 {
				c.words = true
			}
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			key := string(inst.Rune)
			if inst.Op == syntax.InstRuneAny || inst.Op == syntax.InstRuneAnyNotNL {
				key = "any"
			} else if len(inst.Rune) == 1 && syntax.Flags(inst.Arg)&syntax.FoldCase != 0 {
				key += "fold"
			}
			if seen[key] {
				continue
			}
			seen[key] = true
			tests = append(tests, inst)
			switch {
			case key == "any":
			case len(inst.Rune) == 1:
				r := inst.Rune[0]
				span(r, r)
				if syntax.Flags(inst.Arg)&syntax.FoldCase != 0 {
					for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
						span(f, f)
					}
				}
			default:
				for i := 0; i+1 < len(inst.Rune); i += 2 {
					span(inst.Rune[i], inst.Rune[i+1])
				}
			}
		}
	}
	if c.words {
		span('0', '9')
		span('A', 'Z')
		span('_', '_')
		span('a', 'z')
	}
	if len(bounds)*len(tests) > 1<<20 || len(bounds) > 1<<15 {
		return nil
	}
	for r := range bounds {
		if r <= unicode.MaxRune {
			c.bounds = append(c.bounds, r)
		}
	}
	slices.Sort(c.bounds)
	known := map[string]uint16{"\n": 0}
	c.reps = []rune{'\n'}
	for _, r := range c.bounds {
		key := []byte{'\n'}
		if r != '\n' {
			key[0] = 0
			if c.words && isWord(r) {
				key[0] = 1
			}
			for _, t := range tests {
				if t.MatchRune(r) {
					key = append(key, 1)
				} else {
					key = append(key, 0)
				}
			}
		}
		id, ok := known[string(key)]
		if !ok {
			id = uint16(len(c.reps))
			known[string(key)] = id
			c.reps = append(c.reps, r)
		}
		c.of = append(c.of, id)
	}
	c.odd = uint16(len(c.reps))
	for b := range c.ascii {
		if b >= utf8.RuneSelf || b == '\r' && !keepCR {
			c.ascii[b] = c.odd
		} else {
			c.ascii[b] = c.class(rune(b))
		}
	}
	return c
}

func (c *classes) class(r rune) uint16 {
	i, found := slices.BinarySearch(c.bounds, r)
	if !found {
		i--
	}
	return c.of[i]
}

// An automaton answers "which line matches" for one Pattern. It builds its states on demand. A
// state is the set of program positions that the text so far leads to, with the kind of the
// previous rune.
type automaton struct {
	prog     *syntax.Prog
	classes  *classes
	anchored bool // a match can only begin at the start of a line
	stride   uint32

	// table[s+class] is the state after s (a state is the offset of its row), or one of
	// unknown, matched and dead.
	table  []uint32
	ids    map[string]uint32
	keys   []string // key of row i
	start  uint32
	resets int

	visited []uint32 // seen[pc] == round: pc was visited
	round   uint32
	stack   []uint32
	out     []uint32
}

const (
	unknown = iota // not computed yet
	matched        // the line matches
	dead           // the line does not match
	special        // the smallest value of a state
)

const (
	maxTable  = 1 << 20 // maximum number of entries, 4 bytes each
	maxResets = 16
)

func newAutomaton(p *Pattern) *automaton {
	a := &automaton{
		prog: p.prog, classes: p.classes,
		anchored: p.prog.StartCond()&(syntax.EmptyBeginText|syntax.EmptyBeginLine) != 0,
		stride:   uint32(max(len(p.classes.reps)+1, special)),
		visited:  make([]uint32, len(p.prog.Inst)),
	}
	a.reset()
	return a
}

func (a *automaton) reset() {
	a.table = make([]uint32, a.stride, 64*a.stride) // row 0 is not a state
	a.ids = map[string]uint32{}
	a.keys = []string{""}
	a.start = a.state(nil, 0)
}

// These are the kinds of what precedes a position in a line: nothing, a rune of a word, or another rune.
const (
	atStart = iota
	afterOther
	afterWord
)

// state returns the ID of a state, and creates it if necessary.
func (a *automaton) state(pcs []uint32, before byte) uint32 {
	key := make([]byte, 1, 1+4*len(pcs))
	key[0] = before
	slices.Sort(pcs)
	for _, pc := range pcs {
		key = binary.LittleEndian.AppendUint32(key, pc)
	}
	id, ok := a.ids[string(key)]
	if !ok {
		id = uint32(len(a.table))
		a.table = append(a.table, make([]uint32, a.stride)...)
		a.ids[string(key)] = id
		a.keys = append(a.keys, string(key))
	}
	return id
}

// step computes the state after s and a rune of class. It may clear the table.
func (a *automaton) step(s uint32, class uint16) uint32 {
	key := a.keys[s/a.stride]
	before := [...]rune{atStart: -1, afterOther: ' ', afterWord: 'a'}[key[0]]
	rep := a.classes.reps[class]
	after := rep
	if class == 0 {
		after = -1
	}
	have := syntax.EmptyOpContext(before, after)

	a.round++
	a.out = a.out[:0]
	a.stack = append(a.stack[:0], uint32(a.prog.Start)) // a match may begin anywhere
	for i := 1; i < len(key); i += 4 {
		a.stack = append(a.stack, binary.LittleEndian.Uint32([]byte(key[i:i+4])))
	}
	for len(a.stack) > 0 {
		pc := a.stack[len(a.stack)-1]
		a.stack = a.stack[:len(a.stack)-1]
		if a.visited[pc] == a.round {
			continue
		}
		a.visited[pc] = a.round
		inst := &a.prog.Inst[pc]
		switch inst.Op {
		case syntax.InstMatch:
			return matched
		case syntax.InstAlt, syntax.InstAltMatch:
			a.stack = append(a.stack, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			a.stack = append(a.stack, inst.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^have == 0 {
				a.stack = append(a.stack, inst.Out)
			}
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if class != 0 && inst.MatchRune(rep) {
				a.out = append(a.out, inst.Out)
			}
		}
	}
	if class == 0 {
		return a.start
	}
	slices.Sort(a.out)
	a.out = slices.Compact(a.out)
	if len(a.out) == 0 && a.anchored {
		return dead
	}
	now := byte(afterOther)
	if a.classes.words && isWord(rep) {
		now = afterWord
	}
	if len(a.table)+int(a.stride) > maxTable {
		a.resets++
		out := slices.Clone(a.out)
		a.reset()
		return a.state(out, now)
	}
	return a.state(a.out, now)
}

// find returns a position within the first matching line of data, or -1 if none matches. ok is
// false if there are too many states.
func (a *automaton) find(data []byte) (at int, ok bool) {
	if a.resets > maxResets {
		return 0, false
	}
	s := a.start
	ascii := &a.classes.ascii
	table := a.table
	for i := 0; i < len(data); i++ {
		next := table[s+uint32(ascii[data[i]])]
		if next >= special {
			s = next
			continue
		}
		class, width := ascii[data[i]], 1
		if class == a.classes.odd {
			if data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n' {
				continue // "\r\n" ends a line just like "\n"
			}
			var r rune
			r, width = utf8.DecodeRune(data[i:])
			class = a.classes.class(r)
			next = table[s+uint32(class)]
		}
		if next == unknown {
			resets := a.resets
			next = a.step(s, class)
			if a.resets > maxResets {
				return 0, false
			}
			if a.resets == resets {
				a.table[s+uint32(class)] = next
			}
			table = a.table
		}
		switch next {
		case matched:
			return i, true
		case dead:
			nl := bytes.IndexByte(data[i:], '\n')
			if nl < 0 {
				return -1, true
			}
			i += nl
			s = a.start
			continue
		}
		s = next
		i += width - 1
	}
	if len(data) == 0 || data[len(data)-1] != '\n' {
		if table[s] == matched || a.step(s, 0) == matched {
			return max(len(data)-1, 0), true
		}
	}
	return -1, true
}
