package tui

import (
	"strings"
	"testing"
)

// The space bar is named only where it switches an item, and not while it belongs to the words that are searched.
func TestPickerSwitch(t *testing.T) {
	p := newPicker("Which?", []item{{value: "a", label: "a", other: "/settings x off"}, {value: "b", label: "b"}})
	names := func() bool { return strings.Contains(p.keys(), "space") }
	if !names() {
		t.Error("the key of an item that can be switched is not named")
	}
	p.move(1)
	if names() {
		t.Error("the key is named at an item that cannot be switched")
	}
	p.query = "a"
	p.filter()
	if names() {
		t.Error("the key is named during a search")
	}
}
