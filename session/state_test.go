package session

import (
	"fmt"
	"maps"
	"testing"

	"github.com/knack-agent/knack/llm"
)

// TestStateIsImmutable: a State does not change after it was taken, although it shares its large maps with the log.
func TestStateIsImmutable(t *testing.T) {
	l := New(Header{})
	add := func(e Entry) {
		t.Helper()
		if _, err := l.Append(e); err != nil {
			t.Fatal(err)
		}
	}
	touched := func(path string) Entry {
		return Entry{Type: TypeUser, User: &User{Parts: []llm.Part{llm.Text("x")}, Touched: []string{path}}}
	}
	listing := map[string]string{"a": "1", "b": "1"}
	add(Entry{Type: TypeListing, Listing: &Listing{Text: "x", Announced: listing}})
	add(touched("/a"))
	before := l.State()
	for _, path := range []string{"/b", "/c"} {
		add(touched(path))
	}
	add(Entry{Type: TypeNote, Note: &Note{Announced: map[string]string{"a": "2", "b": ""}}})
	if want := map[string]bool{"/a": true}; !maps.Equal(before.Touched, want) {
		t.Errorf("touched %v, want %v", before.Touched, want)
	}
	if want := map[string]string{"a": "1", "b": "1"}; !maps.Equal(before.Announced, want) || !maps.Equal(listing, want) {
		t.Errorf("announced %v, listing %v, want %v", before.Announced, listing, want)
	}
	now := l.State()
	if want := map[string]string{"a": "2"}; !maps.Equal(now.Announced, want) || len(now.Touched) != 3 {
		t.Errorf("now announced %v, touched %v", now.Announced, now.Touched)
	}
}

// TestStateAllocates: taking the State costs the same with 10,000 skills.
func TestStateAllocates(t *testing.T) {
	l := New(Header{})
	announced := map[string]string{}
	for i := range 10_000 {
		announced[fmt.Sprint("skill", i)] = "x"
	}
	if _, err := l.Append(Entry{Type: TypeListing, Listing: &Listing{Announced: announced}}); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(10, func() { l.State() }); n > 0 {
		t.Errorf("a state has %v allocations, want none", n)
	}
}
