package skillzip

import (
	"archive/zip"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/knack-agent/knack/internal/leaf/extract"
)

type entry struct {
	name, data string
	mode       fs.FileMode
}

func archive(t *testing.T, name string, entries ...entry) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	w, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	z := zip.NewWriter(w)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode | 0o644)
		fw, err := z.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		fw.Write([]byte(e.data))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLayouts(t *testing.T) {
	for _, entries := range [][]entry{
		{{"pdf/", "", fs.ModeDir}, {"pdf/SKILL.md", "x", 0}, {"pdf/scripts/a.sh", "y", 0o755}},
		{{"SKILL.md", "x", 0}, {"scripts/a.sh", "y", 0o755}},
	} {
		dir, err := Unpack(archive(t, "pdf.skill", entries...), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Base(dir) != "pdf" {
			t.Error(dir)
		}
		files, err := Files(dir)
		if err != nil || len(files) != 2 || files[0].Path != "SKILL.md" || string(files[1].Data) != "y" {
			t.Errorf("%v, %v", files, err)
		}
		var first, second bytes.Buffer
		if err := Write(&first, "pdf", files); err != nil {
			t.Fatal(err)
		}
		Write(&second, "pdf", files)
		if !bytes.Equal(first.Bytes(), second.Bytes()) {
			t.Error("two archives of the same files differ")
		}
	}
}

func TestRefused(t *testing.T) {
	md := entry{"pdf/SKILL.md", "x", 0}
	for name, entries := range map[string][]entry{
		"upwards":       {md, {"pdf/../../x", "", 0}},
		"absolute":      {md, {"/x", "", 0}},
		"backslash":     {md, {`pdf\..\x`, "", 0}},
		"link":          {md, {"pdf/l", "/etc/passwd", fs.ModeSymlink}},
		"device":        {md, {"pdf/d", "", fs.ModeDevice}},
		"outside":       {md, {"other/x", "", 0}},
		"two skills":    {md, {"b/SKILL.md", "", 0}},
		"no skill":      {{"pdf/README.md", "", 0}},
		"too deep":      {{"a/b/SKILL.md", "", 0}},
		"one name":      {md, {"pdf/skill.MD", "", 0}},
		"device's name": {md, {"pdf/nul.txt", "", 0}},
	} {
		if dir, err := Unpack(archive(t, "pdf.skill", entries...), t.TempDir()); err == nil {
			t.Errorf("%s: unpacked to %s", name, dir)
		}
	}
}

// The unpacked size is limited, whatever size the archive claims.
func TestBomb(t *testing.T) {
	file := archive(t, "pdf.skill", entry{"pdf/SKILL.md", "x", 0}, entry{"pdf/a", strings.Repeat("\x00", 600), 0},
		entry{"pdf/b", strings.Repeat("\x00", 600), 0})
	if _, _, err := read(file, 1201); err != nil {
		t.Error(err)
	}
	if _, _, err := read(file, 1200); !errors.Is(err, errTooLarge) {
		t.Errorf("one byte too many: %v", err)
	}
}

// A file that exceeds the limit for archives is not read: a sparse one of terabytes uses no memory.
func TestSparse(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"SKILL.md", "big"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(filepath.Join(dir, "big"), 1<<40); err != nil {
		t.Skip(err)
	}
	if _, err := Files(dir); !errors.Is(err, errTooLarge) {
		t.Errorf("%v, want %v", err, errTooLarge)
	}
}

func TestLinks(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "SKILL.md"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("SKILL.md", filepath.Join(dir, "inside")); err != nil {
		t.Skip(err)
	}
	if files, err := Files(dir); err != nil || len(files) != 2 {
		t.Errorf("%v, %v", files, err)
	}
	for _, target := range []string{"/etc/hostname", "../x", "missing", "."} {
		link := filepath.Join(dir, "link")
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
		if files, err := Files(dir); err == nil {
			t.Errorf("%s: packed %v", target, files)
		}
		os.Remove(link)
	}
}

// FuzzRead reads damaged and hostile archives: what comes out can be written, and stays within the limits.
func FuzzRead(f *testing.F) {
	var good bytes.Buffer
	files := []extract.File{{Path: "SKILL.md", Data: []byte("x")}, {Path: "scripts/a.sh", Data: []byte("y"), Script: true}}
	if err := Write(&good, "pdf", files); err != nil {
		f.Fatal(err)
	}
	f.Add(good.Bytes())
	f.Add(bytes.ReplaceAll(good.Bytes(), []byte("pdf/scripts"), []byte("../scripts/")))
	f.Add(bytes.ReplaceAll(good.Bytes(), []byte("a.sh"), []byte("A.SH")))
	f.Add(good.Bytes()[:good.Len()-30])
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(dir, "x.skill")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		const limit = 1 << 16
		name, files, err := read(file, limit)
		if err != nil {
			return
		}
		size := 0
		for _, f := range files {
			if size += len(f.Data); extract.Path(f.Path) != nil {
				t.Errorf("the path %q", f.Path)
			}
		}
		if err := extract.Path(name); size > limit || len(files) > MaxFiles || name != "x" && err != nil {
			t.Errorf("%q, %d files, %d bytes: %v", name, len(files), size, err)
		}
	})
}
