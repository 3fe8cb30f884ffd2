package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/internal/transcript"
	"github.com/knack-agent/knack/session"
)

// ExportOptions say which version of the program writes a transcript.
func ExportOptions(version string) transcript.Options {
	return transcript.Options{Program: "Knack " + version}
}

func (p *Project) export(log *session.Log, f transcript.Format, path string) error {
	return Export(log, f, path, false, ExportOptions(p.Version()))
}

// ExportTo says where an export goes and how it is written: what was not said
// follows from the rest.
func ExportTo(log *session.Log, format, out string) (string, transcript.Format, error) {
	f, err := transcript.ParseFormat(cmp.Or(format, filepath.Ext(out), string(transcript.HTML)))
	if err != nil {
		return "", "", &Error{Err: err, Hint: "knack session export ID --format html", Exit: ExitUsage}
	}
	return cmp.Or(out, "knack-"+log.ID()+"."+string(f)), f, nil
}

// Export writes the branch of a session into a file that only its owner
// reads. A file that is there is replaced as a whole if force is set, and else
// left alone.
func Export(log *session.Log, f transcript.Format, path string, force bool, o transcript.Options) (err error) {
	var file *os.File
	name := path
	if force {
		file, err = os.CreateTemp(filepath.Dir(path), ".knack-*")
		if err == nil {
			name = file.Name()
		}
	} else {
		file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if errors.Is(err, fs.ErrExist) {
		return &Error{Err: fmt.Errorf("%s is there already", plain.Line(path)), Hint: "--force replaces it"}
	}
	if err != nil {
		return err
	}
	err = transcript.Write(file, log, f, o)
	err = errors.Join(err, file.Close())
	if err == nil && force {
		err = os.Rename(name, path)
	}
	if err != nil {
		os.Remove(name)
	}
	return err
}
