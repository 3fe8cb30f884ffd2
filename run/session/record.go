package session

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/knack-agent/knack/internal/leaf/parallel"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// A record is where a Log finds an entry: in memory or in its file. Entries that the model no longer sees, those
// before the last compaction, are only in the file. The zero record is an entry that could not be read.
type record struct {
	entry  *Entry // nil: it is not in memory
	offset int64  // of its line in the file
	size   int    // of the line; 0: it is not in the file
	parent int
}

func (r *record) readable() bool { return r.entry != nil || r.size > 0 }

// A source reads entries from the file of a log. The zero source reads nothing; the first entry opens the file.
type source struct {
	path  string
	file  *os.File
	parse func(line []byte) (Entry, error) // nil: parseLine
}

// entry returns the entry of a record; ok is false if it cannot be read.
func (s *source) entry(r *record) (e Entry, ok bool) {
	if r.entry != nil {
		return *r.entry, true
	}
	if r.size == 0 {
		return Entry{}, false
	}
	if s.file == nil {
		f, err := regular.Open(s.path)
		if err != nil {
			return Entry{}, false
		}
		s.file = f
	}
	line := make([]byte, r.size)
	if _, err := s.file.ReadAt(line, r.offset); err != nil {
		return Entry{}, false
	}
	parse := s.parse
	if parse == nil {
		parse = parseLine
	}
	e, err := parse(line)
	return e, err == nil
}

func (s *source) close() {
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}

// Limits of reading a file.
const (
	maxLine  = 512 << 20 // bytes of a line
	maxBatch = 2 << 20   // bytes of the lines that are decoded together
)

// A fileLine is one line of a session's file.
type fileLine struct {
	number int
	offset int64
	data   []byte // with the line end, which the last line may not have
	entry  Entry
	err    error
}

// A lineReader reads the lines of a file in batches, and each byte once.
type lineReader struct {
	in     io.Reader
	parse  func(line []byte) (Entry, error)
	buf    []byte // read; the next lines begin at used
	used   int
	lines  []fileLine // of the last batch
	number int        // of lines returned
	offset int64      // of the next line in the file
	end    bool       // the file has ended
}

// batch returns the next lines, decoded; none at the end of the file. They are valid until the next call.
func (r *lineReader) batch() ([]fileLine, error) {
	r.buf = r.buf[:copy(r.buf, r.buf[r.used:])]
	r.used = 0
	for {
		last := bytes.LastIndexByte(r.buf, '\n')
		if r.end {
			last = len(r.buf) - 1 // the last line may have no end
		}
		if last >= 0 && (r.end || len(r.buf) >= maxBatch) {
			lines := r.split(r.buf[:last+1])
			r.offset += int64(last + 1)
			r.used = last + 1
			r.decode(lines)
			return lines, nil
		}
		if r.end {
			return nil, nil
		}
		if len(r.buf) > maxLine {
			return nil, errLongLine
		}
		r.buf = slices.Grow(r.buf, maxBatch)
		n, err := io.ReadFull(r.in, r.buf[len(r.buf):len(r.buf)+maxBatch])
		r.buf = r.buf[:len(r.buf)+n]
		if r.end = errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF); err != nil && !r.end {
			return nil, err
		}
	}
}

var errLongLine = errors.New("a line is longer than 512 MiB")

// split returns the lines of data, in the memory of those of the last call.
func (r *lineReader) split(data []byte) []fileLine {
	clear(r.lines)
	lines := slices.Grow(r.lines[:0], bytes.Count(data, []byte{'\n'})+1)
	at := r.offset
	for line := range bytes.Lines(data) {
		r.number++
		lines = append(lines, fileLine{number: r.number, offset: at, data: line})
		at += int64(len(line))
	}
	r.lines = lines
	return lines
}

// decode decodes lines as entries, in several goroutines, because this takes most of the time of opening a session.
func (r *lineReader) decode(lines []fileLine) {
	const share = 32
	parallel.Each((len(lines)+share-1)/share, func(n int) {
		for i := n * share; i < min((n+1)*share, len(lines)); i++ {
			lines[i].entry, lines[i].err = r.parse(lines[i].data)
		}
	})
}

// parseLine decodes a line. The decoder's slices have a capacity of ten, which most messages do not need.
func parseLine(line []byte) (Entry, error) {
	e, err := ParseEntry(line)
	switch {
	case e.User != nil:
		e.User.Parts = slices.Clone(e.User.Parts)
	case e.Answer != nil:
		e.Answer.Message.Parts = slices.Clone(e.Answer.Message.Parts)
	case e.Result != nil:
		e.Result.Parts = slices.Clone(e.Result.Parts)
	}
	return e, err
}
