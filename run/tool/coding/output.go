package coding

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/tool/truncate"
)

// An output collects what a command writes. It keeps the end of it in memory without
// terminal sequences. If the output exceeds the limits, a file stores it as written, up to
// maxStored. It is safe for concurrent use.
type output struct {
	limits truncate.Limits
	dir    string // for the file; "": the system's directory for temporary files
	away   bool   // commands cannot open the file
	always bool   // keep the file even if the output is short
	most   int64  // bytes that the file takes
	// report, if not nil, gets the text so far reportDelay after new output. It may be called once
	// more while end runs.
	report func(text string)

	mu     sync.Mutex
	delay  time.Duration // until report is called; 0: reportDelay
	timer  *time.Timer   // calls report; nil: there is no new output
	clean  cleaner
	tail   truncate.Tail
	raw    []byte  // all of the output, until there is a file
	file   *stored // nil: not created yet
	size   int64
	breaks int  // line breaks in the original output
	nul    bool // a NUL near the start: the read tool would refuse the file as binary
	ended  bool
	err    error // from writing the file
}

// reportDelay is the time from new output until it is reported.
const reportDelay = 100 * time.Millisecond

func newOutput(l truncate.Limits, dir string) *output {
	o := &output{limits: l, dir: dir, most: maxStored, tail: truncate.Tail{Limits: l}}
	o.clean.w = &o.tail
	return o
}

// keep makes an output that of a job: all of it goes to a file, and none is reported.
func (o *output) keep() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.report, o.always = nil, true
	if o.file == nil && o.err == nil && len(o.raw) > 0 {
		o.spill()
	}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.clean.Write(p)
	if space := readBlock - o.size; space > 0 && bytes.IndexByte(p[:min(int64(len(p)), space)], 0) >= 0 {
		o.nul = true
	}
	o.size += int64(len(p))
	o.breaks += bytes.Count(p, []byte{'\n'})
	if o.report != nil && o.timer == nil { // most commands end before this: they need no goroutine
		o.timer = time.AfterFunc(cmp.Or(o.delay, reportDelay), o.reportText)
	}
	switch {
	case o.err != nil:
	case o.file != nil:
		_, o.err = o.file.Write(p)
	default:
		o.raw = append(o.raw, p...)
		if o.always || len(o.raw) > o.limits.Bytes+1 || o.breaks > o.limits.Lines {
			o.spill()
		}
	}
	return len(p), nil
}

// An Output collects the output of a command in the format of the bash tool: without
// terminal sequences, and cut to the last 2,000 lines or 50 KiB. If it was cut, a notice
// names a file with the full output.
type Output struct{ out *output }

// NewOutput returns an empty Output. dir is used like Options.TempDir.
func NewOutput(dir string) Output { return Output{newOutput(truncate.Default(), dir)} }

// Write adds output of a command.
func (o Output) Write(p []byte) (int, error) { return o.out.Write(p) }

// WriteLines adds a text on new lines, unless it is empty.
func (o Output) WriteLines(text string) {
	if text == "" {
		return
	}
	if o.out.tail.MidLine() {
		text = "\n" + text
	}
	o.out.Write([]byte(text))
}

// Text closes the Output and returns its text; "" if there is none.
func (o Output) Text() string {
	text, _, _ := o.out.end()
	if text == llm.NoOutput {
		return ""
	}
	return text
}

// spill creates the file.
func (o *output) spill() {
	if o.file, o.err = create(o.dir, o.most); o.err == nil {
		_, o.err = o.file.Write(o.raw)
	}
	o.raw = nil
}

// reportText passes the text so far to report.
func (o *output) reportText() {
	o.mu.Lock()
	o.timer = nil
	report := o.report
	if o.ended {
		report = nil
	}
	text, _ := o.tail.End()
	o.mu.Unlock()
	if report != nil {
		report(text)
	}
}

// end closes the output and returns its text for the model. If something was cut, the
// text has a notice, and path is the file with the full output.
func (o *output) end() (text string, c truncate.Cut, path string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	if o.timer != nil {
		o.timer.Stop()
	}
	o.clean.end()
	text, c = o.tail.End()
	if c.By != "" && o.file == nil && o.err == nil {
		o.spill()
	}
	next := ""
	if o.file != nil {
		path = o.file.Name()
		if lost, until := o.file.left(); o.err == nil && until > 0 {
			next = onlyKept(lost)
			o.err = o.file.tidy()
		} else if err := o.file.Close(); o.err == nil {
			o.err = err
		}
		if c.By == "" && !o.always || o.err != nil {
			os.Remove(path)
			path = ""
		}
	}
	text = strings.TrimSuffix(text, "\n")
	if c.By != "" {
		if next == "" && (o.nul || o.breaks != o.tail.Newlines()) {
			next = "For the start, use bash with head -c on the file."
			if o.away {
				next = noCommand + "head -c for the start."
			}
		}
		text += "\n\n" + tailNotice(c, o.limits, path, next, o.away, o.err)
	}
	if strings.TrimSpace(text) == "" {
		text = llm.NoOutput
	}
	return text, c, path
}

// noCommand is the beginning of what to do where commands run on another machine or in a container.
const noCommand = "Commands cannot open the file: run the command again with "

// onlyKept says that of an output only so many bytes were kept of its start and of its end.
func onlyKept(bytes int64) string {
	return fmt.Sprintf("Only its first and last %s were kept.", plain.Size(bytes))
}

// tailNotice tells the model which part of an output it sees and how to read the rest.
// next, if not empty, replaces the advice to use read, which would count lines
// differently. away says that commands cannot open the file.
func tailNotice(c truncate.Cut, l truncate.Limits, path, next string, away bool, err error) string {
	first := c.TotalLines - c.Lines + 1
	var shownLines string
	switch {
	case c.LineBytes > 0:
		shownLines = fmt.Sprintf("last %s of line %d (line is %s)", plain.Size(int64(c.Bytes)), c.TotalLines,
			plain.Size(c.LineBytes))
		next = "Use bash with head -c or cut -c on the file for the rest."
		if away {
			next = noCommand + "head -c or cut -c for the rest."
		}
	case c.By == truncate.ByLines:
		shownLines = fmt.Sprintf("lines %d-%d of %d (%d line limit)", first, c.TotalLines, c.TotalLines, l.Lines)
	default:
		shownLines = fmt.Sprintf("lines %d-%d of %d (%s limit)", first, c.TotalLines, c.TotalLines,
			plain.Size(int64(l.Bytes)))
	}
	if err != nil {
		return fmt.Sprintf("[Showing %s. The full output could not be kept: %v. Run the command again with less output.]",
			shownLines, err)
	}
	if next == "" {
		next = fmt.Sprintf("Use read with limit=%d for the lines before.", first-1)
	}
	name := "Full output"
	if strings.HasPrefix(next, "Only") {
		name = "Output"
	}
	return fmt.Sprintf("[Showing %s. %s %s: %s]", shownLines, next, name, path)
}
