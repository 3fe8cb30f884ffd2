package eval

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/knack-agent/knack/internal/leaf/regular"
)

const (
	maxChecked  = 16 << 20 // bytes of a file that a check reads
	maxEvidence = 300      // bytes of what a check found
	maxSnapshot = 2000     // files of a snapshot
)

// A Command runs a command line in a directory, confined to it, and returns the exit code and what it printed.
type Command func(ctx context.Context, dir, line string) (exit int, output string, err error)

// A checker makes the checks of one trial that need no judge.
type checker struct {
	set     *Set
	dir     string // of the trial
	outcome *Outcome
	command Command // nil: commands of the set do not run
}

// check makes one check. A check that cannot be made is skipped with the reason.
func (k *checker) check(ctx context.Context, c Check) CheckResult {
	r := CheckResult{Check: c}
	ok, found, err := k.find(ctx, c)
	var gone missing
	switch {
	case errors.As(err, &gone): // nothing is known of the content, so that not turns nothing around
		r.Evidence = string(gone)
	case err != nil:
		r.Skipped = err.Error()
	default:
		r.Passed, r.Evidence = ok != c.Not, clip(found, maxEvidence)
	}
	return r
}

func (k *checker) find(ctx context.Context, c Check) (ok bool, found string, err error) {
	switch c.Type {
	case Contains:
		return contains(k.outcome.Answer, c.Value)
	case Matches:
		return matches(k.outcome.Answer, c.Value)
	case TranscriptMatches:
		return matches(Transcript(k.outcome.Steps), c.Value)
	case FileExists:
		return k.exists(c.Path)
	case FileContains, FileMatches:
		data, err := k.read(c.Path)
		if err != nil {
			return false, "", err
		}
		if c.Type == FileContains {
			return contains(string(data), c.Value)
		}
		return matches(string(data), c.Value)
	case JSONPath:
		text := []byte(k.outcome.Answer)
		if c.Path != "" {
			data, err := k.read(c.Path)
			if err != nil {
				return false, "", err
			}
			text = data
		}
		return jsonHas(text, c.At, c.Value)
	case CommandExits:
		if k.command == nil {
			return false, "", errors.New("commands of this set do not run, because it is not trusted (knack trust, or --trust)")
		}
		exit, out, err := k.command(ctx, k.dir, c.Value)
		if err != nil {
			return false, "", fmt.Errorf("the command could not be run: %w", err)
		}
		return exit == c.Exit, strings.TrimSpace(fmt.Sprintf("exit %d\n%s", exit, out)), nil
	case Snapshot:
		return k.snapshot(c.Path)
	case ToolUsed:
		return k.used(c)
	case ToolOrder:
		return k.order(c.Values)
	}
	return false, "", fmt.Errorf("the type %q is not known", c.Type)
}

func contains(text, part string) (bool, string, error) {
	if at := strings.Index(text, part); at >= 0 {
		return true, around(text, at, len(part)), nil
	}
	return false, "", nil
}

func matches(text, pattern string) (bool, string, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return false, "", fmt.Errorf("the regular expression: %w", err)
	}
	if at := re.FindStringIndex(text); at != nil {
		return true, around(text, at[0], at[1]-at[0]), nil
	}
	return false, "", nil
}

// around returns the line of text that has a match.
func around(text string, at, n int) string {
	from := strings.LastIndexByte(text[:at], '\n') + 1
	to := at + n
	if i := strings.IndexByte(text[to:], '\n'); i >= 0 {
		to += i
	} else {
		to = len(text)
	}
	if to-from > maxEvidence {
		from, to = max(from, at-maxEvidence/3), min(to, at+maxEvidence)
	}
	return strings.ToValidUTF8(text[from:to], "")
}

// inside refuses a path that leads out of the directory of the trial.
func inside(name string) error {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return fmt.Errorf("%q: the path must be below the directory of the trial", name)
	}
	return nil
}

// read reads a file of the trial. The error is a missing if it is not there, which is the fault of the trial.
func (k *checker) read(name string) ([]byte, error) {
	if err := inside(name); err != nil {
		return nil, err
	}
	root, err := regular.Root(k.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, err := regular.ReadIn(root, filepath.FromSlash(name), maxChecked)
	if err != nil {
		return nil, missing(plainError(err))
	}
	return data, nil
}

// missing is why a file of a trial cannot be read. The check of its content fails.
type missing string

func (m missing) Error() string { return string(m) }

func plainError(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no such file"
	}
	return err.Error()
}

func (k *checker) exists(pattern string) (bool, string, error) {
	if err := inside(strings.ReplaceAll(pattern, "*", "x")); err != nil {
		return false, "", err
	}
	if !doublestar.ValidatePattern(pattern) {
		return false, "", fmt.Errorf("%q is not a glob", pattern)
	}
	root, err := regular.Root(k.dir)
	if err != nil {
		return false, "", err
	}
	defer root.Close()
	first := ""
	err = doublestar.GlobWalk(root.FS(), path.Clean(pattern), func(name string, d fs.DirEntry) error {
		if d.IsDir() {
			return nil
		}
		first = name
		return doublestar.SkipDir
	}, doublestar.WithNoFollow())
	if err != nil && !errors.Is(err, doublestar.SkipDir) {
		return false, "", nil
	}
	return first != "", first, nil
}

func (k *checker) snapshot(dir string) (bool, string, error) {
	set, err := regular.Root(k.set.Dir)
	if err != nil {
		return false, "", fmt.Errorf("the snapshot: %w", err)
	}
	defer set.Close()
	want, err := below(set, dir)
	if err != nil {
		return false, "", fmt.Errorf("the snapshot: %w", err)
	}
	defer want.Close()
	files, differ := 0, ""
	err = walkFiles(want, func(name string, _ bool) error {
		if files++; files > maxSnapshot {
			return fmt.Errorf("it has more than %d files", maxSnapshot)
		}
		data, err := regular.ReadIn(want, filepath.FromSlash(name), maxChecked)
		if err != nil {
			return err
		}
		got, err := k.read(name)
		var gone missing
		switch {
		case errors.As(err, &gone):
			differ = name + ": " + string(gone)
		case err != nil:
			return err
		case !bytes.Equal(got, data):
			differ = fmt.Sprintf("%s: differs in line %d", name, firstDifference(got, data))
		default:
			return nil
		}
		return fs.SkipAll
	})
	if err != nil {
		return false, "", fmt.Errorf("the snapshot: %w", err)
	}
	if files == 0 {
		return false, "", errors.New("the snapshot has no files")
	}
	if differ != "" {
		return false, differ, nil
	}
	return true, fmt.Sprintf("%d files are the same", files), nil
}

// firstDifference returns the line in which two texts begin to differ, from 1.
func firstDifference(a, b []byte) int {
	line := 1
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			break
		}
		if a[i] == '\n' {
			line++
		}
	}
	return line
}

func (k *checker) used(c Check) (bool, string, error) {
	re, err := regexp.Compile(c.Pattern)
	if err != nil {
		return false, "", fmt.Errorf("the regular expression: %w", err)
	}
	n, found := 0, ""
	for _, s := range k.outcome.Steps {
		if s.Kind == StepCall && sameTool(s.Tool, c.Value) && re.Match(s.Input) {
			n++
			found = cmp.Or(found, s.Tool+" "+string(s.Input))
		}
	}
	return n >= max(1, c.Min) && (c.Max == 0 || n <= c.Max), found, nil
}

// order looks for the tools as a subsequence of the calls.
func (k *checker) order(tools []string) (bool, string, error) {
	if len(tools) == 0 {
		return false, "", errors.New("the check names no tool")
	}
	var called []string
	left := tools
	for _, s := range k.outcome.Steps {
		if s.Kind != StepCall {
			continue
		}
		called = append(called, s.Tool)
		if len(left) > 0 && sameTool(s.Tool, left[0]) {
			left = left[1:]
		}
	}
	return len(left) == 0, strings.Join(called, ", "), nil
}

// sameTool compares names of tools: other agents write them with capitals.
func sameTool(a, b string) bool { return strings.EqualFold(a, b) }

// jsonHas reports whether a JSON text has a value at a path of names and indexes, such as $.rows[0].total. want is JSON,
// or a string without its quotes; "": anything.
func jsonHas(text []byte, at, want string) (bool, string, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return false, "it is not JSON: " + err.Error(), nil
	}
	keys, err := jsonKeys(at)
	if err != nil {
		return false, "", err
	}
	for _, key := range keys {
		next, ok := member(v, key)
		if !ok {
			return false, "there is nothing at " + key, nil
		}
		v = next
	}
	got, err := json.Marshal(v)
	if err != nil {
		return false, "", err
	}
	if want == "" {
		return true, string(got), nil
	}
	if s, ok := v.(string); ok && s == want {
		return true, string(got), nil
	}
	var wanted any
	d = json.NewDecoder(strings.NewReader(want))
	d.UseNumber()
	if d.Decode(&wanted) != nil {
		return false, string(got), nil
	}
	other, err := json.Marshal(wanted)
	return bytes.Equal(got, other), string(got), err
}

func member(v any, key string) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		x, ok := v[key]
		return x, ok
	case []any:
		i, err := strconv.Atoi(key)
		if err != nil || i < 0 || i >= len(v) {
			return nil, false
		}
		return v[i], true
	}
	return nil, false
}

func jsonKeys(at string) (keys []string, err error) {
	rest := strings.TrimPrefix(at, "$")
	for rest != "" {
		switch {
		case rest[0] == '[':
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				return nil, fmt.Errorf("the path %q has no ]", at)
			}
			keys = append(keys, strings.Trim(rest[1:end], `"'`))
			rest = rest[end+1:]
		default:
			rest = strings.TrimPrefix(rest, ".")
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			if end == 0 {
				return nil, fmt.Errorf("the path %q has an empty name", at)
			}
			keys = append(keys, rest[:end])
			rest = rest[end:]
		}
	}
	return keys, nil
}

// score sums up the checks of a trial.
func score(t *Trial) {
	passed, all := 0.0, 0.0
	t.Counts, t.Passed = 0, true
	for _, r := range t.Checks {
		if r.Skipped != "" {
			continue
		}
		t.Counts++
		weight := r.Weight
		if weight <= 0 {
			weight = 1
		}
		if !r.WithOnly {
			all += weight
		}
		switch {
		case !r.Passed:
			t.Passed = false
		case !r.WithOnly:
			passed += weight
		}
	}
	t.Passed = t.Passed && t.Counts > 0 && t.Error == ""
	t.Score = 0
	if all > 0 && t.Error == "" {
		t.Score = passed / all
	}
}

// measurable reports whether a trial has a check that counts for a difference.
func measurable(t Trial) bool {
	return !t.Void && slices.ContainsFunc(t.Checks, func(r CheckResult) bool { return r.Skipped == "" && !r.WithOnly })
}

func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}
