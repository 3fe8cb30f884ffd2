package schema_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"golang.org/x/tools/txtar"

	"github.com/knack-agent/knack/run/llm/schema"
)

var update = flag.Bool("update", false, "write the golden files")

var formats = append(schema.Formats[:], schema.Plain)

// TestFit: schemas of real servers, what is sent of them in each format, and inputs that are valid before and after.
func TestFit(t *testing.T) {
	t.Parallel()
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		if filepath.Base(file) == "refused.txtar" {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			given := json.RawMessage(bytes.TrimSpace(a.Files[0].Data))
			want := a.Files[2:]
			a.Files = a.Files[:2:2]
			for _, f := range formats {
				got, err := schema.Fit(f, given)
				if err != nil {
					t.Fatal(f, err)
				}
				if again, err := schema.Fit(f, got); err != nil || string(again) != string(got) {
					t.Errorf("%s: twice: %v\n%s\n%s", f, err, got, again)
				}
				refusals(t, f, got)
				for line := range strings.Lines(string(a.Files[1].Data)) {
					valid(t, f, got, line)
					valid(t, "original", given, line)
				}
				got = append(slices.Clip(got), '\n')
				if last := &a.Files[len(a.Files)-1]; len(a.Files) > 2 && bytes.Equal(last.Data, got) {
					last.Name += ", " + string(f)
				} else {
					a.Files = append(a.Files, txtar.File{Name: string(f), Data: got})
				}
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			for i, f := range a.Files[2:] {
				if i >= len(want) || want[i].Name != f.Name || string(want[i].Data) != string(f.Data) {
					t.Errorf("%s:\n%s", f.Name, f.Data)
				}
			}
		})
	}
}

// valid checks that a schema accepts an input.
func valid(t *testing.T, f schema.Format, data json.RawMessage, input string) {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(data, &s); err != nil {
		if f != "original" {
			t.Errorf("%s: %v", f, err)
		}
		return
	}
	r, err := s.Resolve(nil)
	if err != nil {
		if f != "original" { // it may be of an older draft
			t.Errorf("%s: %v", f, err)
		}
		return
	}
	var v any
	if err := json.Unmarshal([]byte(input), &v); err != nil {
		t.Fatal(err)
	}
	if err := r.Validate(v); err != nil {
		t.Errorf("%s refuses %s: %v", f, input, err)
	}
}

var plainName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// refusals checks a schema as the vendors do, as far as their messages say what they refuse.
func refusals(t *testing.T, f schema.Format, data json.RawMessage) {
	t.Helper()
	var top map[string]any
	if err := json.Unmarshal(data, &top); err != nil || top["type"] != "object" {
		t.Fatalf("%s: not of an object: %s", f, data)
	}
	if _, ok := top["properties"].(map[string]any); !ok {
		t.Errorf("%s: no properties: %s", f, data)
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf", "not", "enum", "if", "then", "else"} {
		if top[key] != nil {
			t.Errorf("%s: %s at the top: %s", f, key, data)
		}
	}
	if err := refused(f, "", top); err != nil {
		t.Errorf("%s: %v: %s", f, err, data)
	}
}

func refused(f schema.Format, at string, v any) error {
	n, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is %v, not an object", at, v)
	}
	flat := f == schema.Chat || f == schema.Plain || f == schema.Gemini
	alternatives := n["anyOf"] != nil || n["oneOf"] != nil
	_, list := n["type"].([]any)
	props, _ := n["properties"].(map[string]any)
	required, _ := n["required"].([]any)
	typ, _ := n["type"].(string)
	format, _ := n["format"].(string)
	switch {
	case n["$ref"] != nil || n["allOf"] != nil || n["const"] != nil || n["$defs"] != nil:
		return fmt.Errorf("%s has a keyword that is refused", at)
	case flat && !alternatives && typ == "":
		return fmt.Errorf("%s: type is not defined", at)
	case flat && alternatives && n["type"] != nil:
		return fmt.Errorf("%s: a type beside anyOf", at)
	case flat && list:
		return fmt.Errorf("%s: a list of types", at)
	case f != schema.Messages && typ == "array" && n["items"] == nil:
		return fmt.Errorf("%s: array schema missing items", at)
	case f == schema.Gemini && typ == "string" && format != "" && format != "date-time":
		return fmt.Errorf("%s: format %s", at, format)
	case f == schema.Gemini && alternatives && len(n) != 1:
		return fmt.Errorf("%s: other fields alongside any_of", at)
	case f == schema.Gemini && required != nil && typ != "object":
		return fmt.Errorf("%s: required: only allowed for OBJECT type", at)
	}
	for i, name := range required {
		if flat && props[name.(string)] == nil {
			return fmt.Errorf("%s: required: %v is not defined", at, name)
		}
		if slices.Contains(required[:i], name) {
			return fmt.Errorf("%s: required: %v twice", at, name)
		}
	}
	for name, p := range props {
		if at == "" && f == schema.Messages && !plainName.MatchString(name) {
			return fmt.Errorf("the key %q", name)
		}
		if err := refused(f, at+"."+name, p); err != nil {
			return err
		}
	}
	if n["items"] != nil {
		if err := refused(f, at+"[]", n["items"]); err != nil {
			return err
		}
	}
	for _, key := range []string{"anyOf", "oneOf", "prefixItems"} {
		all, _ := n[key].([]any)
		for i, x := range all {
			if err := refused(f, fmt.Sprintf("%s.%s[%d]", at, key, i), x); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestRefused: a tool is not offered with a schema of which it is not certain what it means.
func TestRefused(t *testing.T) {
	t.Parallel()
	a, err := txtar.ParseFile("testdata/refused.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range a.Files {
		lines := strings.Split(strings.TrimSpace(string(c.Data)), "\n")
		for _, f := range formats {
			_, err := schema.Fit(f, json.RawMessage(lines[0]))
			if refuses := lines[1] == "all" || lines[1] == string(f); refuses && (err == nil || err.Error() != lines[2]) ||
				!refuses && err != nil {
				t.Errorf("%s, %s: %v", c.Name, f, err)
			}
		}
	}
}

// TestLarge: references that would multiply do not take long.
func TestLarge(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString(`{"type":"object","properties":{"x":{"$ref":"#/$defs/a0"}},"$defs":{`)
	for i := range 60 {
		fmt.Fprintf(&b, `"a%d":{"type":"object","properties":{"l":{"$ref":"#/$defs/a%d"},"r":{"$ref":"#/$defs/a%d"}}},`, i, i+1,
			i+1)
	}
	b.WriteString(`"a60":{"type":"string"}}}`)
	for _, f := range formats {
		got, err := schema.Fit(f, json.RawMessage(b.String()))
		if err != nil || len(got) > 1<<20 {
			t.Errorf("%s: %d bytes, %v", f, len(got), err)
		}
	}
	if _, err := schema.Fit(schema.Chat, json.RawMessage(strings.Repeat(`{"items":`, 9000)+"{}"+
		strings.Repeat("}", 9000))); err == nil {
		t.Error("a schema nested 9000 deep is accepted")
	}
}

// FuzzFit: whatever a server sends, the result is what the formats accept, and stays the same when it is made again.
func FuzzFit(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, x := range a.Files {
			line, _, _ := bytes.Cut(x.Data, []byte("\n"))
			f.Add(line)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, format := range formats {
			got, err := schema.Fit(format, data)
			if err != nil {
				if strings.Contains(err.Error(), "\n") {
					t.Errorf("%q", err)
				}
				continue
			}
			refusals(t, format, got)
			again, err := schema.Fit(format, got)
			if err != nil || string(again) != string(got) {
				t.Errorf("%s: twice: %v\n%s\n%s", format, err, got, again)
			}
		}
	})
}
