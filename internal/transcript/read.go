package transcript

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/session"
	"github.com/knack-agent/knack/tool"
)

// Bounds of what is read, in bytes.
const (
	maxLine = 100 << 20 // pictures are lines
	maxFile = 2 << 30
)

// Knack is the name of the agent whose transcripts are sessions of ours.
const Knack = "Knack"

// An Importer is a program whose transcripts can be read.
type Importer struct {
	Name string
	// Wrote reports whether a line, the i-th from 0, shows that the agent wrote it.
	Wrote func(i int, line json.RawMessage) bool
	// Build makes the session.
	Build func(b *Builder, lines []Line)
}

// ReadOptions say what a transcript does not contain itself.
type ReadOptions struct {
	Name string // of the file, for problems
	// Agents are those whose transcripts are read, besides Knack.
	Agents []Importer
	// Tools gives calls of other agents the names of ours, where their input is
	// one of ours; nil: they stay as they are.
	Tools tool.Set
}

// A Transcript is one that was read: a session in memory, without a directory
// or an ID of its own yet.
type Transcript struct {
	Agent    string // that wrote it
	ID       string // of the session there
	Dir      string // its working directory; "": unknown
	Log      *session.Log
	Problems []knack.Problem
}

// Read reads a transcript, whose content shows which agent wrote it. Lines that
// cannot be understood are left out and are Problems; the error means that r is no
// transcript at all, or cannot be read. Nothing in it runs, and no other file is
// read.
//
// The session is the branch on which the transcript ends, and what it sends to a
// model is what the original would: every call has a result, and what was
// compacted is its summary. A provider's signatures are kept where the provider
// itself would get them back, and dropped elsewhere.
func Read(r io.Reader, o ReadOptions) (*Transcript, error) {
	b := newBuilder(o)
	all, err := b.lines(r, maxFile)
	if err != nil {
		return nil, err
	}
	if len(all) > 0 && isOurs(all[0].Data) {
		b.agent = Knack
		err = b.knack(all)
	} else if a := agentOf(o.Agents, all); a != nil {
		b.agent = a.Name
		a.Build(b, all)
	} else {
		names := Knack
		for _, a := range o.Agents {
			names += " or " + a.Name
		}
		err = fmt.Errorf("not a session of %s", names)
	}
	if err != nil {
		return nil, err
	}
	return b.end(), nil
}

// agentOf returns which agent wrote the lines; nil: none of these.
func agentOf(agents []Importer, all []Line) *Importer {
	for i, l := range all {
		for k := range agents {
			if agents[k].Wrote(i, l.Data) {
				return &agents[k]
			}
		}
	}
	return nil
}

// A Line is one of a transcript, a JSON object.
type Line struct {
	N    int // from 1
	Data json.RawMessage
}

// lines reads the lines that are objects, of at most so many bytes. The last
// may be torn.
func (b *Builder) lines(r io.Reader, most int64) ([]Line, error) {
	var all []Line
	in := &io.LimitedReader{R: r, N: most + 1} // a device has no end
	for n, line := range splitLines(in) {
		if line.err != nil {
			return nil, line.err
		}
		if in.N == 0 {
			return nil, fmt.Errorf("it is larger than %d MiB", most>>20)
		}
		data := bytes.TrimSpace(line.data)
		switch {
		case line.long:
			b.Problem(n, fmt.Sprintf("the line is longer than %d MiB and was left out", maxLine>>20))
		case len(data) == 0:
		case data[0] != '{' || !json.Valid(data):
			if !line.whole {
				b.Problem(n, "the last line was cut off")
			} else {
				b.Problem(n, "not a JSON object")
			}
		default:
			all = append(all, Line{n, data})
		}
	}
	return all, nil
}

type rawLine struct {
	data  []byte
	whole bool // it ended
	long  bool // and was too long to keep
	err   error
}

// splitLines yields lines with their numbers. What is too long is skipped
// without being kept in memory.
func splitLines(r io.Reader) iter.Seq2[int, rawLine] {
	return func(yield func(int, rawLine) bool) {
		br := bufio.NewReaderSize(r, 256<<10)
		for n := 1; ; n++ {
			var l rawLine
			for {
				piece, err := br.ReadSlice('\n')
				if len(l.data)+len(piece) > maxLine {
					l.long, l.data = true, nil
				} else if !l.long {
					l.data = append(l.data, piece...)
				}
				if err == bufio.ErrBufferFull {
					continue
				}
				l.whole = err == nil
				if err == io.EOF {
					if len(l.data) > 0 || l.long {
						yield(n, l)
					}
					return
				}
				if err != nil {
					yield(n, rawLine{err: err})
					return
				}
				break
			}
			if !yield(n, l) {
				return
			}
		}
	}
}
