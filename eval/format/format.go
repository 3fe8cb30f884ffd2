// Package format reads the sets of evaluations that people write for skills, and writes what a run found in the forms
// that other programs read.
//
// [Find] names the files of a skill that ask something, and [Read] makes one [eval.Set] of them. These forms are read:
//
//   - evals.json of agentskills.io and of the skill skill-creator: prompts with what must be true of the result, in the
//     field assertions or expectations
//   - the cases of claude plugin eval: evals/CASE with prompt.md and graders/*.md, or with case.yaml
//   - eval.yaml of waza, and the tests of promptfoo, as far as they are about texts and files
//   - trigger sets: a list of queries, each with should_trigger, such as eval_queries.json
//
// A file or an entry that cannot be read is an [eval.Problem] with its line, its column and what to write; everything
// else is read. Files are strangers' text: they are bounded, nothing in them runs, and no path leads out of the folder of
// the skill.
package format

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/eval"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

const (
	maxFile  = 4 << 20 // bytes of a file of a set
	maxNames = 2000    // entries of a directory that are looked at
)

// A kindOf file is what its content looks like.
type form string

const (
	formEvals   form = "evals.json"
	formTrigger form = "a trigger set"
	formOther   form = ""
)

// Find returns the files of a skill that ask something, relative to its folder and with slashes, in the order of their
// names. It looks at the files of evals that end in .json; one that is something else, such as a result, is passed over.
// A folder without any has no files, which is no error.
func Find(dir string) ([]string, error) {
	root, err := regular.Root(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var files []string
	for _, name := range names(root, "evals") {
		file := path.Join("evals", name)
		for _, of := range []string{"case.yaml", "prompt.md"} {
			if isFile(root, path.Join(file, of)) {
				files = append(files, path.Join(file, of))
				break
			}
		}
		if name == "eval.yaml" || strings.HasPrefix(name, "promptfooconfig.y") {
			files = append(files, file)
		}
		if !strings.HasSuffix(name, ".json") {
			continue
		}
		data, err := regular.ReadIn(root, filepath.FromSlash(file), maxFile)
		if errors.Is(err, regular.ErrNotRegular) || err == nil && name != "evals.json" && formOf(data) == formOther {
			continue
		}
		files = append(files, file) // Read reports one that cannot be read
	}
	for _, name := range []string{"eval.yaml", "promptfooconfig.yaml"} {
		if isFile(root, name) {
			files = append(files, name)
		}
	}
	return files, nil
}

// isFile reports whether a regular file is there.
func isFile(root *os.Root, name string) bool {
	info, err := root.Lstat(filepath.FromSlash(name))
	return err == nil && info.Mode().IsRegular()
}

// names returns the names in a directory below root, in order; nil: it is not there.
func names(root *os.Root, dir string) []string {
	info, err := root.Lstat(dir)
	if err != nil || !info.IsDir() {
		return nil
	}
	f, err := root.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	all, _ := f.Readdirnames(maxNames)
	slices.Sort(all)
	return all
}

// formOf says what the content of a JSON file is. Of one that is no JSON it looks at the names of fields.
func formOf(data []byte) form {
	v, err := readJSON(data)
	if err != nil {
		switch {
		case bytes.Contains(data, []byte(`"should_trigger"`)):
			return formTrigger
		case bytes.Contains(data, []byte(`"evals"`)):
			return formEvals
		}
		return formOther
	}
	return formOfValue(v)
}

func formOfValue(v *value) form {
	entries := entriesOf(v)
	switch {
	case entries == nil:
		return formOther
	case slices.ContainsFunc(entries.items, func(x *value) bool { return x.get(shouldNames...) != nil }):
		return formTrigger
	case v.kind == object && v.get("evals") != nil,
		slices.ContainsFunc(entries.items, func(x *value) bool {
			return x.get(promptNames...) != nil && (x.get(checkNames...) != nil || x.get("expected_output") != nil)
		}):
		return formEvals
	}
	return formOther
}

// entriesOf returns the list of a set: the document itself, or the field that has it; nil: there is none.
func entriesOf(v *value) *value {
	if v.is(list) {
		return v
	}
	if l := v.get("evals", "evaluations", "queries", "eval_set", "test_cases", "cases"); l.is(list) {
		return l
	}
	if v.get(promptNames...).is(text) && v.get(checkNames...) != nil { // a file for each case
		return &value{kind: list, items: []*value{v}, line: v.line, column: v.column}
	}
	return nil
}

// Read reads files as one set of a skill, whose folder dir is. A file is relative to dir and then must not lead out of
// it, or absolute: then the user has named it. The files that the cases need are looked for.
func Read(skill, dir string, files ...string) (*eval.Set, []eval.Problem) {
	r := &reader{set: &eval.Set{Skill: skill, Dir: dir}, ids: map[string]bool{}}
	root, err := regular.Root(dir)
	if err != nil {
		r.problem(nil, "", "%s", err)
		return r.set, r.problems
	}
	defer root.Close()
	r.root = root
	for _, file := range files {
		r.read(file)
	}
	return r.set, r.problems
}

// A reader makes a set of files.
type reader struct {
	set      *eval.Set
	root     *os.Root // the folder of the skill
	file     string   // that is read, absolute
	ids      map[string]bool
	problems []eval.Problem
}

func (r *reader) problem(at *value, hint, format string, args ...any) {
	p := eval.Problem{File: r.file, Message: fmt.Sprintf(format, args...), Hint: hint}
	if at != nil {
		p.Line, p.Column = at.line, at.column
	}
	r.problems = append(r.problems, p)
}

// warn reports something that has no effect.
func (r *reader) warn(at *value, format string, args ...any) {
	r.problem(at, "", format, args...)
	r.problems[len(r.problems)-1].Warning = true
}

// failed reports an error about a document.
func (r *reader) failed(err error, hint string) {
	at := &value{}
	if p := (*placed)(nil); errors.As(err, &p) {
		at.line, at.column = p.line, p.column
	}
	r.problem(at, hint, "%s", err)
}

// bytes returns the content of a file of the set.
func (r *reader) bytes(file string) (data []byte, err error) {
	if filepath.IsAbs(file) {
		r.file = file
		data, err = regular.Read(file, maxFile)
	} else {
		r.file = filepath.Join(r.set.Dir, filepath.FromSlash(file))
		data, err = regular.ReadIn(r.root, filepath.FromSlash(file), maxFile)
	}
	if err != nil {
		return nil, errors.New(why(err))
	}
	return bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), nil
}

// why says what is wrong with a file, without its name.
func why(err error) string {
	var failed *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "there is no such file"
	case errors.As(err, &failed):
		return failed.Err.Error()
	}
	return err.Error()
}

func (r *reader) read(file string) {
	data, err := r.bytes(file)
	if err != nil {
		r.problem(nil, "", "the file cannot be read: %s", err)
		return
	}
	r.set.Files = append(r.set.Files, r.file)
	switch base := path.Base(filepath.ToSlash(file)); {
	case base == "case.yaml" || base == "prompt.md":
		r.claudeFile(file, data)
		return
	case strings.HasSuffix(base, ".yaml") || strings.HasSuffix(base, ".yml"):
		r.yaml(data)
		return
	}
	v, err := readJSON(data)
	if err != nil {
		r.failed(err, hintFor(formOf(data)))
		return
	}
	switch formOfValue(v) {
	case formTrigger:
		r.trigger(v)
	case formEvals:
		r.evals(v)
	default:
		r.problem(v, hintFor(formOther), "this is neither evals.json nor a trigger set")
	}
}

func hintFor(f form) string {
	if f == formTrigger {
		return `[{"query": "what a user says", "should_trigger": true}]`
	}
	return `{"skill_name": "pdf", "evals": [{"id": 1, "prompt": "what a user says", "assertions": ["what must be true"]}]}`
}
