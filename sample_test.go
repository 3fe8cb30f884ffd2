package knack

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/knack-agent/knack/internal/leaf/frontmatter"
)

// plainFields reads frontmatter as a plain YAML reader does; ok is false if the reader would refuse it.
func plainFields(data []byte) (fields map[string]any, ok bool) {
	f := frontmatter.Split(data)
	if f.Fence != frontmatter.Closed {
		return nil, false
	}
	if err := yaml.Load(f.Head, &fields); err != nil {
		return nil, false
	}
	return fields, true
}

// sameFields compares our fields with those of a plain reader, by way of JSON, which has no dates and one kind of
// number.
func sameFields(t *testing.T, path string, s *Skill, want map[string]any) {
	t.Helper()
	fields := s.Fields()
	if len(fields) != len(want) {
		t.Errorf("%s: %d fields, a plain reader has %d", path, len(fields), len(want))
	}
	for _, f := range fields {
		var got, plain any
		if err := json.Unmarshal(f.Value, &got); err != nil {
			t.Errorf("%s: %s: %v", path, f.Key, err)
			continue
		}
		text, err := json.Marshal(stringKeys(want[f.Key]))
		if err != nil {
			t.Errorf("%s: %s: %v", path, f.Key, err)
			continue
		}
		if err := json.Unmarshal(text, &plain); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(numbers(got, plain), plain) {
			t.Errorf("%s: %s = %s, a plain reader has %s", path, f.Key, f.Value, text)
		}
	}
}

// numbers converts texts to numbers where plain has a number: what JSON would write differently is kept as text.
func numbers(v, plain any) any {
	switch p := plain.(type) {
	case float64:
		var n float64
		if text, ok := v.(string); ok && yaml.Load([]byte(text), &n) == nil {
			return n
		}
	case map[string]any:
		if m, ok := v.(map[string]any); ok {
			for k := range m {
				m[k] = numbers(m[k], p[k])
			}
		}
	case []any:
		if l, ok := v.([]any); ok && len(l) == len(p) {
			for i := range l {
				l[i] = numbers(l[i], p[i])
			}
		}
	}
	return v
}

func stringKeys(v any) any {
	switch v := v.(type) {
	case float64: // JSON has no infinity, so it is kept as text
		if math.IsInf(v, 0) {
			return ".inf"
		}
	case time.Time: // JSON keeps the date as written
		if v.Equal(v.Truncate(24 * time.Hour)) {
			return v.Format(time.DateOnly)
		}
	case map[any]any:
		m := map[string]any{}
		for k, e := range v {
			text, _ := yaml.Marshal(k)
			m[string(bytes.TrimSpace(text))] = stringKeys(e)
		}
		return m
	case map[string]any:
		for k, e := range v {
			v[k] = stringKeys(e)
		}
	case []any:
		for i, e := range v {
			v[i] = stringKeys(e)
		}
	}
	return v
}

// TestSample reads every SKILL.md below $KNACK_SKILL_SAMPLE, a collection of public skills: nearly all must load, and
// those that were repaired must have a problem. With -v it prints the problems.
func TestSample(t *testing.T) {
	root := os.Getenv("KNACK_SKILL_SAMPLE")
	if root == "" {
		t.Skip("KNACK_SKILL_SAMPLE does not name a directory of skills")
	}
	files, loaded, equal := 0, 0, 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.EqualFold(d.Name(), "SKILL.md") {
			return err
		}
		files++
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		s, problems := new(headReader).parse(path, data, int64(len(data)), Origin{})
		plain, ok := plainFields(data)
		if s != nil && s.Offered() {
			loaded++
		}
		if s != nil && s.NotModel {
			loaded++
		}
		if ok && s != nil {
			equal++
			sameFields(t, path, s, plain)
		}
		if !ok && len(problems) == 0 {
			t.Errorf("%s: a plain reader refuses the file, but there is no problem", path)
		}
		for _, p := range problems {
			switch p.Code {
			case "yaml-repaired", "yaml-invalid", "encoding", "too-large", "limit-reached", "frontmatter-missing",
				"frontmatter-unclosed", "duplicate-key":
				t.Logf("%s\n\thint: %s", p, p.Hint)
			}
			if p.Hint == "" {
				t.Errorf("%s: no hint", p)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d files, %d load, %d compared with a plain reader", files, loaded, equal)
	if loaded*100 < files*96 {
		t.Errorf("%d of %d load", loaded, files)
	}
}
