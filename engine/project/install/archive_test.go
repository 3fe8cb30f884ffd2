package install

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine/plugin"
)

type member struct {
	name, data string
	mode       fs.FileMode
}

func zipped(t *testing.T, all ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, m := range all {
		h := &zip.FileHeader{Name: m.name, Method: zip.Deflate}
		h.SetMode(m.mode | 0o600)
		w, err := z.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(m.data))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func tarred(t *testing.T, all ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, h := range all {
		data := h.PAXRecords["data"]
		h.PAXRecords, h.Size, h.Mode = nil, int64(len(data)), 0o644
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		w.Write([]byte(data))
	}
	w.Close()
	z.Close()
	return b.Bytes()
}

func with(data string) map[string]string { return map[string]string{"data": data} }

// TestUnpack: both layouts of a zip, a tarball, and hostile ones. Found by attack: 10,001 files took 15 s to be
// refused, and 500 nested directories were installed.
func TestUnpack(t *testing.T) {
	good := member{"SKILL.md", skill, 0}
	many := make([]member, 2*MaxFiles+1)
	for i := range many {
		many[i].name = fmt.Sprint("f", i)
	}
	for name, c := range map[string]struct {
		data []byte
		want string // the files, or the error
	}{
		"root":      {zipped(t, good, member{"scripts/x", "y", 0o700}), "SKILL.md scripts/x"},
		"one dir":   {zipped(t, member{"pdf/SKILL.md", skill, 0}, member{"pdf/scripts/x", "", 0}), "SKILL.md scripts/x"},
		"link":      {zipped(t, good, member{"l", "SKILL.md", fs.ModeSymlink}), "SKILL.md l"},
		"link out":  {zipped(t, good, member{"l", "../../etc", fs.ModeSymlink}), "SKILL.md"},
		"slip":      {zipped(t, good, member{"../x", "", 0}), "error"},
		"absolute":  {zipped(t, good, member{"/x", "", 0}), "error"},
		"backslash": {zipped(t, good, member{`..\x`, "", 0}), "error"},
		"twice":     {zipped(t, good, good), "appears twice"},
		"case":      {zipped(t, good, member{"skill.MD", "", 0}), "one file"},
		"device":    {zipped(t, good, member{"d", "", fs.ModeDevice}), "not a file"},
		"through":   {zipped(t, member{"l", "d", fs.ModeSymlink}, member{"l/x", "", 0}), "error"},
		"bomb":      {zipped(t, good, member{"b", strings.Repeat("\x00", 40<<20), 0}), "times its size"},
		"deep":      {zipped(t, good, member{strings.Repeat("d/", 200) + "x", "", 0}), "directories deep"},
		"many":      {zipped(t, many...), "more than"},
		"not one":   {[]byte("hello"), "neither"},
		"tar":       {tarred(t, tar.Header{Name: "package/SKILL.md", PAXRecords: with(skill)}), "SKILL.md"},
		"tar slip":  {tarred(t, tar.Header{Name: "a/../../x", PAXRecords: with("")}), "error"},
		"tar hard":  {tarred(t, tar.Header{Name: "x", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}), "not a file"},
		"tar char":  {tarred(t, tar.Header{Name: "x", Typeflag: tar.TypeChar}), "not a file"},
		"git": {zipped(t, good, member{".git/config", "", 0}, member{"sub/.git/hooks/x", "", 0o700},
			member{"lib/.git", "gitdir: ../x", 0}, member{".gitignore", "", 0}), ".gitignore SKILL.md"},
		"git in one dir": {zipped(t, member{"pdf/SKILL.md", skill, 0}, member{"pdf/.git/config", "", 0}), "SKILL.md"},
		"git beside":     {zipped(t, member{"pdf/SKILL.md", skill, 0}, member{".git/config", "", 0}), "SKILL.md"},
		"git link":       {zipped(t, good, member{".git", "sub", fs.ModeSymlink}), "SKILL.md"},
		"GIT":            {zipped(t, good, member{"sub/.GIT/config", "", 0}), "a .git directory"},
		"short":          {zipped(t, good, member{"GIT~1/config", "", 0}), "a .git directory"},
		"git dot":        {zipped(t, good, member{".git./config", "", 0}), "ends with a dot"},
		"git blank":      {zipped(t, good, member{".git /config", "", 0}), "ends with a dot or blank"},
		"git stream":     {zipped(t, good, member{".git::$INDEX_ALLOCATION/config", "", 0}), "not every system"},
		"git unseen":     {zipped(t, good, member{".g\u200cit/config", "", 0}), "a .git directory"},
		"tar git": {tarred(t, tar.Header{Name: "package/SKILL.md", PAXRecords: with(skill)},
			tar.Header{Name: "./package/.git/config", PAXRecords: with("")}), "SKILL.md"},
		"tar GIT": {tarred(t, tar.Header{Name: "package/SKILL.md", PAXRecords: with(skill)},
			tar.Header{Name: "package/.Git/config", PAXRecords: with("")}), "a .git directory"},
		"tar GIT link": {tarred(t, tar.Header{Name: "package/SKILL.md", PAXRecords: with(skill)},
			tar.Header{Name: "package/.Git", Typeflag: tar.TypeSymlink, Linkname: "SKILL.md"}), "a .git directory"},
		"tar link up": {tarred(t, tar.Header{Name: "x", Typeflag: tar.TypeSymlink, Linkname: "/etc"}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			w := newWriter(root)
			err = unpack(c.data, "", "", w)
			got := strings.Join(slices.Sorted(maps.Keys(w.files)), " ")
			switch {
			case err != nil && (c.want == "error" || c.want != "" && strings.Contains(err.Error(), c.want)):
			case err != nil || got != c.want:
				t.Errorf("%q, %v", got, err)
			}
			if now, err := Hash(dir); err != nil || c.want != "error" && len(now) < len(w.files) {
				t.Error(now, err)
			}
		})
	}
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := unpack(zipped(t, good), strings.Repeat("0", 64), "", newWriter(root)); err == nil || !strings.Contains(
		err.Error(), "has the sha256") {
		t.Error(err)
	}
}

// TestIndexes: skills of a site in both versions of the index; what has the wrong digest, is elsewhere or redirects to
// another site is refused.
func TestIndexes(t *testing.T) {
	data := zipped(t, member{"SKILL.md", skill, 0})
	hash := sha256.Sum256(data)
	digest := "sha256:" + hex.EncodeToString(hash[:])
	mux := http.NewServeMux()
	serve := func(path, text string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(text)) })
	}
	serve("/a.zip", string(data))
	mux.HandleFunc("/away.zip", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1/a.zip", http.StatusFound)
	})
	serve("/.well-known/agent-skills/index.json", `{"skills":[
		{"name":"good","type":"archive","url":"/a.zip","digest":"`+digest+`"},
		{"name":"wrong","type":"archive","url":"/a.zip","digest":"sha256:`+strings.Repeat("0", 64)+`"},
		{"name":"none","type":"archive","url":"/a.zip"},
		{"name":"text","type":"skill-md","url":"/SKILL.md","digest":"`+sum([]byte(skill))+`"},
		{"name":"elsewhere","type":"archive","url":"http://127.0.0.1:1/a.zip","digest":"`+digest+`"},
		{"name":"away","type":"archive","url":"/away.zip","digest":"`+digest+`"}]}`)
	serve("/SKILL.md", skill)
	old := http.NewServeMux()
	old.HandleFunc("/.well-known/skills/index.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"skills":[{"name":"old","files":["SKILL.md","x/y.md"]},{"name":"up","files":["../x"]}]}`))
	})
	old.HandleFunc("/.well-known/skills/old/", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(skill)) })
	newer, older := httptest.NewServer(mux), httptest.NewServer(old)
	defer newer.Close()
	defer older.Close()
	for _, c := range []struct {
		site, name string
		files      int // 0: an error
	}{{newer.URL, "good", 1}, {newer.URL, "text", 1}, {newer.URL, "wrong", 0}, {newer.URL, "none", 0},
		{newer.URL, "elsewhere", 0}, {newer.URL, "away", 0}, {newer.URL, "unknown", 0}, {older.URL, "old", 2},
		{older.URL, "up", 0}} {
		s := store(t)
		g := Given{Typed: true, Source: plugin.Source{Kind: plugin.Index, URL: c.site, Skill: c.name}}
		got, want := int64(0), int64(0)
		s.Progress = func(_ string, n, total int64) { got, want = n, total }
		st, err := s.Stage(t.Context(), g, "x", nil)
		if err == nil && (got == 0 || got != want && want != 0) {
			t.Errorf("%s: progress %d of %d", c.name, got, want)
		}
		if (err == nil) != (c.files > 0) {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			if len(st.Files) != c.files {
				t.Errorf("%s: %v", c.name, st.Files)
			}
			st.Close()
		}
		// The same source, written by somebody else, is not fetched: it is on this machine, and not https.
		g.Typed = false
		if st, err := s.Stage(t.Context(), g, "x", nil); err == nil {
			t.Errorf("%s: fetched from %s", c.name, c.site)
			st.Close()
		}
		if len(leftovers(t, s)) > 0 {
			t.Error(leftovers(t, s))
		}
	}
}
