package cli

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/eval/record"
	"github.com/knack-agent/knack/eval/suite"
	"github.com/knack-agent/knack/internal/leaf/outfile"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/sources"
)

// place chooses the directory of the recordings: beside the set, except for a skill whose files must stay as they were
// approved or installed.
func (f *evalFlags) place(o *suite.Options, w *bench, s *suite.Suite) {
	o.Recordings = s.Recordings()
	o.Base = s.Set.Dir
	if f.recordings != "" {
		if abs, err := filepath.Abs(f.recordings); err == nil {
			o.Recordings, o.Base = abs, sources.Root(".")
		}
		return
	}
	if _, err := os.Stat(o.Recordings); err == nil || w.trusted(s.Skill) == nil {
		return
	}
	if dir := w.engine.Project().Env().StateFile("evals"); dir != "" {
		o.Recordings, o.Base = filepath.Join(dir, "recordings", nameOf(s)), ""
	}
}

// nameOf returns the name of a suite in the state directory.
func nameOf(s *suite.Suite) string {
	return s.Skill.Name + "-" + record.Hash(s.Set.Dir)[:8]
}

// kept returns the file with what was done of a suite; "": there is no state directory.
func (w *bench) kept(s *suite.Suite) string {
	dir := w.engine.Project().Env().StateFile("evals")
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, nameOf(s)+".json")
}

// maxKept is how large a file with what was done may be, in bytes: it has the transcripts of all trials.
const maxKept = 1 << 30

func readKept(file string) *eval.Report {
	data, err := regular.Read(file, maxKept)
	var p eval.Report
	if err != nil || json.Unmarshal(data, &p) != nil || !p.Partial {
		return nil
	}
	return &p
}

// keep stores what is done of a run that was ended, and removes it after one that was not.
func keep(file string, p *eval.Report) {
	if file == "" {
		return
	}
	if !p.Partial {
		os.Remove(file)
		return
	}
	data, err := json.Marshal(p)
	if err == nil && outfile.Mkdir(filepath.Dir(file), filepath.Dir(file), 0o700) == nil {
		_ = outfile.Write(filepath.Dir(file), file, data, 0o600, true) // without it there is nothing to go on with
	}
}
