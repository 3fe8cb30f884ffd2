package batch

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// maxTask is the longest line of a file of tasks, in bytes.
const maxTask = 4 << 20

// A LineError is a fault in a line of a file.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// LineErrors are all faults of a file, in order; there is one at least.
type LineErrors []*LineError

func (all LineErrors) Error() string { return all.Text("line ", 20) }

// Text returns the faults, one a line, each with a place before its number. Of more than most it names the first and
// the last, and how many are between them.
func (all LineErrors) Text(place string, most int) string {
	var lines []string
	for i, e := range all {
		if more := len(all) - most; more > 0 && i >= most-1 && i < len(all)-1 {
			if i == most-1 {
				lines = append(lines, fmt.Sprintf("and %d more lines, up to", more))
			}
			continue
		}
		lines = append(lines, fmt.Sprintf("%s%d: %v", place, e.Line, e.Err))
	}
	return strings.Join(lines, "\n")
}

// taskLine is a line of a file of tasks.
type taskLine struct {
	ID      *string         `json:"id"`
	Prompt  *string         `json:"prompt"`
	Skill   string          `json:"skill"`
	Args    *string         `json:"args"`
	Model   string          `json:"model"`
	Dir     string          `json:"cwd"`
	Timeout json.RawMessage `json:"timeout"`
	MaxCost *float64        `json:"max_cost"`
}

// ReadTasks reads tasks, one JSON object for each line: {id?, prompt | skill + args, model?, cwd?, timeout?,
// max_cost?}. The key of an item is its id, or follows from its content. Lines without text are ignored. An error is
// LineErrors, or one of r.
func ReadTasks(r io.Reader) ([]Item, error) {
	return items(r, func(line []byte) (Item, error) { return parseTask(line) })
}

// ReadLines reads items that are lines of text, each of which is made into a task. The key of an item is its line.
func ReadLines(r io.Reader, task func(line string) Task) ([]Item, error) {
	return items(r, func(line []byte) (Item, error) {
		text := strings.TrimSpace(string(line))
		if !utf8.ValidString(text) {
			return Item{}, errors.New("it is not UTF-8")
		}
		return TextItem(text, task), nil
	})
}

// TextItem returns the item for a text. Its key is the text, or for a long one its beginning with a hash.
func TextItem(text string, task func(string) Task) Item {
	key := text
	const longest = 80
	if len(key) > longest {
		key = strings.ToValidUTF8(key[:longest-10], "") + "…" + hash([]byte(text), 4)
	}
	return Item{Key: key, Task: task(text)}
}

func hash(data []byte, bytes int) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:bytes])
}

// items reads lines and makes sure that no key is there twice.
func items(r io.Reader, one func([]byte) (Item, error)) (all []Item, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxTask)
	first := map[string]int{}
	var bad LineErrors
	n := 0
	for lines.Scan() {
		n++
		line := lines.Bytes()
		if n == 1 {
			line = bytes.TrimPrefix(line, []byte("\ufeff"))
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		item, err := one(line)
		if other, ok := first[item.Key]; ok && err == nil {
			err = fmt.Errorf("it is the same item as line %d, %q; an id tells them apart", other, item.Key)
		}
		if err != nil {
			bad = append(bad, &LineError{n, err})
			continue
		}
		first[item.Key] = n
		all = append(all, item)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		bad = append(bad, &LineError{n + 1, fmt.Errorf("it is longer than %d MiB, and what follows was not read", maxTask>>20)})
	case err != nil:
		return nil, err
	}
	if len(bad) > 0 {
		return nil, bad
	}
	return all, nil
}

func parseTask(line []byte) (item Item, err error) {
	if !utf8.Valid(line) {
		return item, errors.New("it is not UTF-8")
	}
	var l taskLine
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return item, taskError(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return item, errors.New("there is text after the object")
	}
	t := Task{Skill: strings.TrimPrefix(l.Skill, "/"), Model: l.Model, Dir: l.Dir}
	switch {
	case l.Prompt != nil && l.Skill != "":
		return item, errors.New("it has both prompt and skill")
	case l.Prompt == nil && l.Skill == "":
		return item, errors.New("it has neither prompt nor skill")
	case l.Prompt != nil && strings.TrimSpace(*l.Prompt) == "":
		return item, errors.New("prompt is empty")
	case l.Prompt != nil && l.Args != nil:
		return item, errors.New("args belong to a skill, not to a prompt")
	case l.MaxCost != nil && !(*l.MaxCost > 0):
		return item, errors.New("max_cost must be more than 0")
	case l.ID != nil && strings.TrimSpace(*l.ID) == "":
		return item, errors.New("id is empty")
	case l.ID != nil && (len(*l.ID) > 200 ||
		strings.ContainsFunc(*l.ID, func(r rune) bool { return r < ' ' || r == 0x7f })):
		return item, errors.New("id is longer than 200 bytes or has control characters")
	}
	if l.Prompt != nil {
		t.Prompt = *l.Prompt
	}
	if l.Args != nil {
		t.Args = *l.Args
	}
	if l.MaxCost != nil {
		t.MaxCost = *l.MaxCost
	}
	if t.Timeout, err = timeout(l.Timeout); err != nil {
		return item, err
	}
	if l.ID != nil {
		return Item{Key: *l.ID, Task: t}, nil
	}
	data, err := json.Marshal(t)
	return Item{Key: "task-" + hash(data, 6), Task: t}, err
}

// timeout reads a duration: a number of seconds, or a text such as "10m".
func timeout(data json.RawMessage) (time.Duration, error) {
	if len(data) == 0 || string(data) == "null" {
		return 0, nil
	}
	var text string
	var seconds float64
	var d time.Duration
	if json.Unmarshal(data, &text) == nil {
		var err error
		if d, err = time.ParseDuration(text); err != nil {
			return 0, fmt.Errorf("timeout %q is neither a number of seconds nor a duration such as 10m", text)
		}
	} else if json.Unmarshal(data, &seconds) == nil && seconds < 1e9 {
		d = time.Duration(seconds * float64(time.Second))
	}
	if d <= 0 {
		return 0, errors.New("timeout must be more than 0 seconds")
	}
	return d, nil
}

// taskError rewords errors of package encoding/json.
func taskError(err error) error {
	var bad *json.UnmarshalTypeError
	switch {
	case errors.As(err, &bad) && bad.Field == "":
		return fmt.Errorf("a task is a JSON object, not a %s", bad.Value)
	case errors.As(err, &bad):
		return fmt.Errorf("%s is a %s", bad.Field, bad.Value)
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON object is not complete")
	}
	text := strings.TrimPrefix(err.Error(), "json: ")
	if field, ok := strings.CutPrefix(text, "unknown field "); ok {
		return fmt.Errorf("unknown field %s; a task has id, prompt or skill and args, model, cwd, timeout and max_cost",
			field)
	}
	return errors.New(text)
}
