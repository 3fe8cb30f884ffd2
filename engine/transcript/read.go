package transcript

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/run/tool"
)

// Limits, in bytes.
const (
	maxLine = 100 << 20 // an image is a single line
	maxFile = 2 << 30
)

// Knack is the agent name of transcripts that are Knack sessions.
const Knack = "Knack"

// An Importer reads the transcripts of one program.
type Importer struct {
	Name string
	// Wrote reports whether line i (from 0) shows that this program wrote the transcript.
	Wrote func(i int, line json.RawMessage) bool
	// Build builds the session from the lines.
	Build func(b *Builder, lines []Line)
}

// ReadOptions contain what a transcript does not.
type ReadOptions struct {
	Name string // the file's name, for problems
	// Agents are the supported agents besides Knack.
	Agents []Importer
	// Tools are used to convert calls of other agents to our tools where the input matches.
	// nil leaves all calls unchanged.
	Tools tool.Set
}

// A Transcript is the result of reading: a session in memory, without its own directory or ID
// yet.
type Transcript struct {
	Agent    string // the agent that wrote it
	ID       string // ID of the original session
	Dir      string // original working directory; "": unknown
	Log      *session.Log
	Problems []knack.Problem
}

// Read reads a transcript and detects which agent wrote it. Lines that it does not understand
// are left out and reported as Problems; an error means that r is not a transcript or cannot
// be read. Read runs nothing from the transcript and reads no other file.
//
// The session is the branch on which the transcript ends. It sends the model what the original
// would send: every call has a result, and compacted messages are replaced by their summary. A
// provider's signatures are kept only where that provider itself will get them back.
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

// agentOf returns the agent that wrote the lines, or nil if it is none of agents.
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

// A Line is one line of a transcript: a JSON object.
type Line struct {
	N    int // line number, from 1
	Data json.RawMessage
}

// lines reads the lines that are JSON objects, up to maxBytes bytes in total. The last line may be
// incomplete.
func (b *Builder) lines(r io.Reader, maxBytes int64) ([]Line, error) {
	var all []Line
	in := &io.LimitedReader{R: r, N: maxBytes + 1} // a device may have no end
	for n, line := range splitLines(in) {
		if line.err != nil {
			return nil, line.err
		}
		if in.N == 0 {
			return nil, fmt.Errorf("it is larger than %d MiB", maxBytes>>20)
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
	whole bool // it ends in a newline
	long  bool // it was too long and is not kept
	err   error
}

// splitLines yields lines with their numbers. Lines that are too long are skipped without
// being kept in memory.
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
