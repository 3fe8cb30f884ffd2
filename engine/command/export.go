package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/transcript"
	"github.com/knack-agent/knack/internal/leaf/outfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/session"
	"github.com/knack-agent/knack/sources"
)

// An Export describes how a session is written to a file for people or other programs. The zero Export
// writes an HTML page into the working directory.
type Export struct {
	Format  string // html, md or jsonl; "": the extension of Path, or html if it has none
	Path    string // of the file; "": knack-ID.FORMAT
	Replace bool   // overwrite an existing file
	Version string // of the program; "": left out
	// Summary describes a tool call in one line; nil: the tools of engine.KnownTools do.
	Summary func(tool string, input json.RawMessage) string
}

// WithDefaults returns a copy of x whose Format and Path are set, if necessary to the defaults for a session.
func (x Export) WithDefaults(log *session.Log) (Export, error) {
	f, err := transcript.ParseFormat(cmp.Or(x.Format, filepath.Ext(x.Path), string(transcript.HTML)))
	if err != nil {
		return x, &engine.Error{Err: err, Hint: "knack session export ID --format html", Exit: engine.ExitUsage}
	}
	x.Format = string(f)
	x.Path = cmp.Or(x.Path, "knack-"+log.ID()+"."+x.Format)
	return x, nil
}

// Write writes the current branch of a session to w.
func (x Export) Write(w io.Writer, log *session.Log) error {
	x, err := x.WithDefaults(log)
	if err != nil {
		return err
	}
	o := transcript.Options{Summary: x.Summary}
	if o.Summary == nil {
		o.Summary = engine.KnownTools().Line
	}
	if x.Version != "" {
		o.Program = "Knack " + x.Version
	}
	return transcript.Write(w, log, transcript.Format(x.Format), o)
}

// Save writes the current branch of a session to the file Path, which only its owner can read. After an error there is
// no new file, and an existing one is unchanged.
func (x Export) Save(log *session.Log) (err error) {
	if x, err = x.WithDefaults(log); err != nil {
		return err
	}
	err = outfile.Save(sources.Root("."), x.Path, 0o600, x.Replace, func(w io.Writer) error { return x.Write(w, log) })
	if errors.Is(err, fs.ErrExist) {
		return &engine.Error{Err: fmt.Errorf("%s exists already", plain.Line(x.Path)), Hint: "--force replaces it"}
	}
	return err
}
