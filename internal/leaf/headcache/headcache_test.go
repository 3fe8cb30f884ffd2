package headcache

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func entries() []Entry {
	return []Entry{
		{"/a", Content([]byte("x"), 1), "one"},
		{"/b", Content([]byte("y"), 1), ""},
		{"/c", Content([]byte("x"), 2), "three"},
	}
}

func TestCache(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "skills-1")
	Open(path, 7).Update(entries())
	c := Open(path, 7)
	if got := c.All(); !reflect.DeepEqual(got, entries()) {
		t.Fatalf("%+v", got)
	}
	for _, e := range entries() {
		if text, ok := c.Find(e.Path, e.Key); !ok || text != e.Text {
			t.Errorf("%s: %q %t", e.Path, text, ok)
		}
	}
	if _, ok := c.Find("/a", entries()[2].Key); ok {
		t.Error("found with another key")
	}
	// What was not found is left out, and a new entry replaces an old one.
	c = Open(path, 7)
	c.Find("/a", entries()[0].Key)
	c.Update([]Entry{{"/a", entries()[0].Key, "new"}})
	if got := Open(path, 7).All(); len(got) != 1 || got[0].Text != "new" {
		t.Errorf("%+v", got)
	}
	if got := Open(path, 8).All(); len(got) > 0 {
		t.Errorf("another version of the program reads %+v", got)
	}
}

// FuzzOpen: no content of the file makes reading it fail, with a right checksum either.
func FuzzOpen(f *testing.F) {
	path := filepath.Join(f.TempDir(), "skills-1")
	Open(path, 7).Update(entries())
	good, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:headSize+4])
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= headSize {
			copy(data, good[:16])
			binary.LittleEndian.PutUint32(data[16:], crc32.Checksum(data[headSize:], castagnoli()))
		}
		path := filepath.Join(t.TempDir(), "skills-1")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		c := Open(path, 7)
		for _, e := range c.All() {
			c.Find(e.Path, e.Key)
		}
		c.Update(entries())
		if len(Open(path, 7).All()) < len(entries()) {
			t.Error("the cache was not replaced")
		}
	})
}
