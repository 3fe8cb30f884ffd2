// Package record keeps the answers of a model in a file, so that the same requests can be answered again without a key
// and without a network.
//
// A [Recording] is the file of one case. [Recording.Model] wraps a model: in [Record] its answers are kept, in [Replay]
// they come from the file, in [Auto] from the file where it has them. Requests are equal if they say the same: dates,
// call IDs, temporary directories and the order of fields in JSON do not count. Equal requests are answered in the
// order in which they were recorded, those of the same label first.
//
// The file has JSON lines, for people to read and compare: a head, each text once, and the answers with the requests
// that they belong to. A file with something that looks like a key is not written.
//
// A request that has no recorded answer is a [*MissError], never a request to the provider.
package record

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack/internal/leaf/outfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/secrets"
	"github.com/knack-agent/knack/run/llm"
)

// A Mode says where answers come from.
type Mode string

const (
	Live   Mode = "live"   // from the model; no file is read or written
	Record Mode = "record" // from the model; the file is replaced when the Recording is closed
	Replay Mode = "replay" // from the file
	Auto   Mode = "auto"   // from the file, else from the model; what is new is added to the file
)

// Modes are all modes.
var Modes = []Mode{Live, Record, Replay, Auto}

// Options say what a Recording is for. Only File is needed, and that not in Live.
type Options struct {
	File string // its path; it is below the directory Base
	// Base is the directory of the project that the file belongs to. A symbolic link below it is not followed when the
	// file is written; see package outfile. "": the directory of File, or the nearest
	// one above it that is there.
	Base    string
	Mode    Mode // "": Auto
	Case    string
	Version string // of the program, which the file names
	// Skills has a hash of the text of each skill that the case is about, by name. A file that was recorded with others
	// is older than the skill; see [Recording.Older].
	Skills map[string]string
	// Secrets are texts, such as keys, that must not be in the file, beside what looks like a key.
	Secrets []string
}

// MaxFile is the largest file that is read, in bytes.
const MaxFile = 64 << 20

// A Recording has the answers of one case. It is safe for concurrent use; it must not be copied.
type Recording struct {
	opt  Options
	head head // of the file that was read

	mu      sync.Mutex
	texts   map[string]string // by hash
	answers []*answer
	byKey   map[string][]*answer
	models  map[string]llm.Info // by ID
	changed bool
	misses  []*MissError
}

// Open reads the file of a case. In Replay a file that is missing is an error; otherwise it is empty, and Record does
// not read it. Errors name the file and the line.
func Open(o Options) (*Recording, error) {
	o.Mode = cmp.Or(o.Mode, Auto)
	if !slices.Contains(Modes, o.Mode) {
		return nil, fmt.Errorf("%q is no mode of a recording: write live, record, replay or auto", string(o.Mode))
	}
	if o.Base == "" {
		o.Base = existing(filepath.Dir(o.File))
	}
	r := &Recording{opt: o, texts: map[string]string{}, byKey: map[string][]*answer{}, models: map[string]llm.Info{}}
	if o.Mode == Live {
		return r, nil
	}
	if err := outfile.Check(o.Base, o.File); err != nil {
		return nil, err
	}
	if o.Mode == Record {
		return r, nil
	}
	data, err := regular.Read(o.File, MaxFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.Mode == Auto:
		return r, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("there is no recording %s: record one with --mode record, which asks the model: %w",
			plain.Line(o.File), err)
	case err != nil:
		return nil, err
	}
	if err := r.read(data); err != nil {
		return nil, fmt.Errorf("%s:%w", plain.Line(o.File), err)
	}
	return r, nil
}

// existing returns a directory, or the nearest one above it that is there.
func existing(dir string) string {
	for {
		if _, err := os.Lstat(dir); err == nil || filepath.Dir(dir) == dir {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// Older returns the names of the skills whose text is another one than when the file was recorded.
func (r *Recording) Older() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(r.head.Skills)) {
		if now, ok := r.opt.Skills[name]; ok && now != r.head.Skills[name] {
			names = append(names, name)
		}
	}
	return names
}

// Models describes the models whose answers the Recording has, by ID.
func (r *Recording) Models() []llm.Info {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []llm.Info
	for _, id := range slices.Sorted(maps.Keys(r.models)) {
		all = append(all, r.models[id])
	}
	return all
}

// Labels returns the labels of the recorded answers, in their order, each as often as it has answers.
func (r *Recording) Labels() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	labels := make([]string, len(r.answers))
	for i, a := range r.answers {
		labels[i] = a.Label
	}
	return labels
}

// Answered describes the model of the first recorded answer whose label ok accepts.
func (r *Recording) Answered(ok func(label string) bool) (info llm.Info, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.answers {
		if info, known := r.models[a.Request.Model]; known && ok(a.Label) {
			return info, true
		}
	}
	return info, false
}

// Misses returns the requests that had no recorded answer, in the order in which they came. In Auto and Record these
// are the errors of requests that the model could not answer either.
func (r *Recording) Misses() []*MissError {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.misses)
}

// Unused counts the recorded answers that nobody asked for.
func (r *Recording) Unused() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, a := range r.answers {
		if !a.used {
			n++
		}
	}
	return n
}

// A SecretError says that a recording was not written, because it would contain a key.
type SecretError struct {
	File string
	What string // what looks like a key, without the key
}

func (e *SecretError) Error() string {
	return fmt.Sprintf("%s is not written: a text of it looks like a key (%s); remove it from the case's files or the "+
		"skill, and record again", plain.Line(e.File), plain.Line(e.What))
}

// Close writes the file, if there is something new. It makes missing directories. After an error the old file is
// unchanged. No Model of the Recording may be in use.
func (r *Recording) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opt.Mode == Live || r.opt.Mode == Replay || !r.changed {
		return nil
	}
	data, err := r.write()
	if err != nil {
		return err
	}
	if what := r.secret(escapes().ReplaceAllLiteralString(string(data), "\n")); what != "" {
		return &SecretError{File: r.opt.File, What: what}
	}
	if err := outfile.Mkdir(r.opt.Base, filepath.Dir(r.opt.File), 0o755); err != nil {
		return err
	}
	if err := outfile.Write(r.opt.Base, r.opt.File, data, 0o644, true); err != nil {
		return err
	}
	r.changed = false
	return nil
}

// escapes match the escapes of JSON, also in texts that are JSON themselves: the n of one would begin a word.
var escapes = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\\+(?:[bfnrt"/]|u[0-9a-fA-F]{4})`) })

// secret says what in a text looks like a key; "": nothing does.
func (r *Recording) secret(text string) string {
	if key := secrets.Key(text); key != "" {
		return "it begins with " + key[:min(4, len(key))] + "…"
	}
	for _, s := range r.opt.Secrets {
		if s = strings.TrimSpace(s); len(s) >= 8 && strings.Contains(text, s) {
			return "it is one of this session's"
		}
	}
	return ""
}
