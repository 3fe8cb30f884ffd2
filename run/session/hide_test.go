package session

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/run/llm"
)

const canary = "canary-7Lx0"

// TestHide fills every text of every type of entry with a secret: none of it is in the log, and what the caller has is
// as it was. A field that is added later is found, too.
func TestHide(t *testing.T) {
	kept := map[string]bool{"Started": true, "Seen": true, "Move": true, "Restore": true}
	entry := reflect.TypeFor[Entry]()
	for i := range entry.NumField() {
		f := entry.Field(i)
		if f.Type.Kind() != reflect.Pointer || kept[f.Name] {
			continue
		}
		var e Entry
		v := reflect.New(f.Type.Elem())
		fill(v.Elem())
		reflect.ValueOf(&e).Elem().Field(i).Set(v)
		before, err := json.Marshal(e)
		if err != nil || !strings.Contains(string(before), canary) {
			t.Fatalf("%s: %v: %s", f.Name, err, before)
		}
		l := New(Header{})
		l.Hide(func() []string { return []string{canary} })
		after, err := json.Marshal(l.hidden(e))
		if err != nil || strings.Contains(string(after), canary) || !strings.Contains(string(after), "[secret]") {
			t.Errorf("%s: %v: %s", f.Name, err, after)
		}
		if again, _ := json.Marshal(e); string(again) != string(before) {
			t.Errorf("%s: what the caller has was changed: %s", f.Name, again)
		}
	}
}

// fill sets all texts in a value that people and models write.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.Type() != reflect.TypeFor[string]() {
			return
		}
		v.SetString("is " + canary)
	case reflect.Slice:
		switch v.Type() {
		case reflect.TypeFor[json.RawMessage]():
			v.SetBytes([]byte(`{"x": "` + canary + `"}`))
		case reflect.TypeFor[[]byte]():
		default:
			s := reflect.MakeSlice(v.Type(), 2, 2)
			for i := range 2 {
				fill(s.Index(i))
			}
			v.Set(s)
		}
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*llm.ToolCall]() || v.Type() == reflect.TypeFor[*llm.Thinking]() ||
			v.Type() == reflect.TypeFor[*llm.Media]() || v.Type() == reflect.TypeFor[*llm.ToolResult]() {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Tag.Get("json") != "-" && !identifies(v.Type(), f.Name) {
				fill(v.Field(i))
			}
		}
	}
}

// identifies reports whether the text of a field is an identifier, a path or the name of something.
func identifies(of reflect.Type, field string) bool {
	switch {
	case field == "Model":
		return of != reflect.TypeFor[Note]()
	case of == reflect.TypeFor[TurnEnd]() && field == "Title": // the log sets it, from what is masked
		return true
	}
	switch field {
	case "ID", "Name", "Call", "Tool", "Skill", "Hash", "Uses", "Effort", "Retain", "Server", "MessageID", "Dir",
		"Touched", "Log", "Spent", "Hook", "Opaque", "Stop", "Rule", "Path", "Risk", "Hooks", "Sandbox", "Grants", "Denies", "Ignored",
		"Accepted", "Tools", "Loaded", "Found", "Rules", "Servers", "Withheld", "Missing", "Suggested", "Skills", "Dropped",
		"UserOnly":
		return true
	}
	return false
}
