package markdown

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
)

var update = flag.Bool("update", false, "pack the definitions of languages again")

// TestDefinitions: lexers.zip has the definitions in lexers.
func TestDefinitions(t *testing.T) {
	files, err := filepath.Glob("lexers/*.xml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	packed, err := zip.NewReader(bytes.NewReader([]byte(definitions)), int64(len(definitions)))
	if err != nil {
		t.Fatal(err)
	}
	old := len(packed.File) != len(files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		w, err := z.Create(filepath.Base(file))
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			t.Fatal(err)
		}
		f, err := packed.Open(filepath.Base(file))
		if err != nil {
			old = true
			continue
		}
		has, err := io.ReadAll(f)
		old = old || err != nil || !bytes.Equal(has, data)
		f.Close()
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if *update && old {
		old = os.WriteFile("lexers.zip", b.Bytes(), 0o644) != nil
	}
	if old {
		t.Error("lexers.zip is old: go test ./internal/leaf/markdown -run TestDefinitions -update")
	}
}
