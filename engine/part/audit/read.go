package audit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
)

// A Damage is what is wrong with an audit file.
type Damage struct {
	Path string
	Line int
	What string
}

func (d Damage) String() string { return fmt.Sprintf("%s:%d: %s", d.Path, d.Line, d.What) }

// All yields the entries of an audit file, the oldest first, with those of its rotated files, and in their place what
// is wrong: then the Entry is zero, unless it can be read. The error is about reading.
func All(path string) iter.Seq2[Entry, *Damage] {
	return func(yield func(Entry, *Damage) bool) {
		files, err := rotated(path)
		if err != nil {
			yield(Entry{}, &Damage{path, 0, err.Error()})
			return
		}
		c := chain{yield: yield}
		for _, name := range append(files, path) {
			if !c.file(name) {
				return
			}
		}
	}
}

// A chain is what comes before an entry.
type chain struct {
	yield  func(Entry, *Damage) bool
	n      int
	hash   string
	broken bool // the entry before is damaged, so what the next one follows is not known
}

// file yields the entries of a file. It reports whether to go on.
func (c *chain) file(name string) bool {
	f, err := openRegular(name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return true // nothing was written since it was rotated
	}
	if err != nil {
		return c.yield(Entry{}, &Damage{name, 0, err.Error()})
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, maxLine)
	for n := 1; ; n++ {
		text, err := r.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) { // nobody writes so long a line
			_, err = r.ReadSlice('\n')
			text = nil
		}
		if err == io.EOF && len(text) == 0 {
			return true
		}
		whole := err == nil
		if err != nil && err != io.EOF {
			return c.yield(Entry{}, &Damage{name, n, err.Error()})
		}
		if !c.line(name, n, bytes.TrimSuffix(text, []byte("\n")), whole) {
			return false
		}
	}
}

// line yields an entry, and what is wrong with it or before it.
func (c *chain) line(name string, n int, text []byte, whole bool) bool {
	e, err := parse(text)
	if err == nil && !whole {
		err = errors.New("it is not complete")
	}
	if err != nil {
		c.broken = true
		return c.yield(e, &Damage{name, n, "entry: " + err.Error()})
	}
	var wrong *Damage
	switch {
	case c.broken || c.n == 0 && e.Prev == "" && e.N == 1:
	case c.n == 0:
		wrong = &Damage{name, n, fmt.Sprintf("it begins with the entry %d: those before it are missing", e.N)}
	case e.N != c.n+1:
		wrong = &Damage{name, n, fmt.Sprintf("the entry %d follows the entry %d: entries were removed or added", e.N, c.n)}
	case e.Prev != c.hash:
		wrong = &Damage{name, n, "it does not follow the entry before it: one of them was replaced"}
	}
	c.n, c.hash, c.broken = e.N, e.Hash, false
	return c.yield(e, wrong)
}
