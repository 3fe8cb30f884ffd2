package install

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/guard"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
)

// Limits of downloads in bytes.
const (
	maxArchive = 128 << 20
	maxIndex   = 8 << 20
	maxRatio   = 200 // unpacked to packed, above a few MiB
)

// download gets a file. Addresses that others wrote must be https, and do not lead inside.
func (s *Store) download(ctx context.Context, address string, typed bool, limit int64) ([]byte, error) {
	return s.downloadAs(ctx, address, "", typed, limit)
}

// downloadAs is download with a token, which another host never gets; "": without.
func (s *Store) downloadAs(ctx context.Context, address, token string, typed bool, limit int64) ([]byte, error) {
	client := http.Client{Transport: guard.New(guard.Options{})}
	if typed {
		client = http.Client{}
		if s.Client != nil {
			client = *s.Client
		}
	}
	client.CheckRedirect = func(to *http.Request, via []*http.Request) error {
		if len(via) >= 5 || to.URL.Scheme != "https" && (!typed || to.URL.Host != via[0].URL.Host) {
			return fmt.Errorf("it redirects to %s", plain.Line(to.URL.Redacted()))
		}
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	if req.URL.Scheme != "https" && !(typed && req.URL.Scheme == "http") {
		return nil, fmt.Errorf("%s is not an https address", plain.Line(address))
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", plain.Line(req.URL.Redacted()), resp.Status)
	}
	var from io.Reader = io.LimitReader(resp.Body, limit+1)
	if s.Progress != nil {
		got, total := int64(0), max(0, resp.ContentLength)
		from = io.TeeReader(from, writeFunc(func(p []byte) {
			got += int64(len(p))
			s.Progress(req.URL.Redacted(), got, total)
		}))
	}
	data, err := io.ReadAll(from)
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%s: more than %d MiB", plain.Line(req.URL.Redacted()), limit>>20)
	}
	return data, err
}

// A writeFunc is told what passes through.
type writeFunc func(p []byte)

func (f writeFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

func (s *Store) fetchArchive(ctx context.Context, g Given, w *writer) error {
	var data []byte
	var err error
	if g.URL == "" { // a file that the user named
		data, err = regular.Read(g.Source.Path, maxArchive)
		g.Source.Path = ""
	} else {
		data, err = s.download(ctx, g.URL, g.Typed, maxArchive)
	}
	if err != nil {
		return err
	}
	return unpack(data, g.Digest, g.Source.Path, w)
}

// Unpack writes the files of an archive that the user named to dir, which is empty, with the limits of an installation.
func Unpack(file, dir string) error {
	data, err := regular.Read(file, maxArchive)
	if err != nil {
		return err
	}
	root, err := regular.Root(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	w := newWriter(root)
	defer w.Close()
	return unpack(data, "", "", w)
}

// unpack writes the files of a .zip or .tar.gz. digest is the sha256 of data in hex; "": any. dir is the directory in
// the archive; "": the only one at its root if there is nothing else, otherwise the root.
func unpack(data []byte, digest, dir string, w *writer) error {
	if got := sha256.Sum256(data); digest != "" && hex.EncodeToString(got[:]) != digest {
		return fmt.Errorf("the archive has the sha256 %x, not %s", got, digest)
	}
	read := readTar
	if bytes.HasPrefix(data, []byte("PK")) {
		read = readZip
	}
	var names []string
	if err := read(data, func(name string, _ fs.FileMode, _ string, _ io.Reader) error {
		if leftOut(name) {
			return nil
		}
		if names = append(names, name); len(names) > MaxFiles {
			return errTooMany
		}
		return nil
	}); err != nil {
		return err
	}
	if dir = strings.Trim(path.Clean("/"+dir), "/"); dir == "" {
		dir = onlyDir(names)
	}
	limit := max(8<<20, int64(len(data))*maxRatio)
	return read(data, func(name string, mode fs.FileMode, target string, r io.Reader) error {
		if leftOut(name) {
			return nil
		}
		rel := name
		if dir != "" {
			var ok bool
			if rel, ok = strings.CutPrefix(name, dir+"/"); !ok {
				return nil
			}
		}
		switch {
		case mode&fs.ModeSymlink != 0:
			return w.link(rel, target)
		case !mode.IsRegular():
			return fmt.Errorf("%s is not a file: devices and hard links are not unpacked", plain.Line(name))
		}
		err := w.file(rel, r, mode&0o100 != 0)
		if err == nil && w.size > limit {
			err = fmt.Errorf("it unpacks to more than %d times its size", maxRatio)
		}
		return err
	})
}

// leftOut reports whether a file of an archive is not a part of the plugin: macOS added it, or it is of the author's
// repository, which a copy of a directory does not have either. Other spellings of .git are refused.
func leftOut(name string) bool {
	return strings.HasPrefix(name, "__MACOSX/") || path.Base(name) == ".DS_Store" ||
		slices.Contains(strings.Split(name, "/"), ".git")
}

// onlyDir returns the directory that contains all files; "": there is none. A plugin may consist of skills/ alone,
// which is then not its directory.
func onlyDir(names []string) string {
	dir := ""
	for _, name := range names {
		top, _, ok := strings.Cut(name, "/")
		if !ok || dir != "" && top != dir {
			return ""
		}
		dir = top
	}
	switch dir {
	case ".", "..": // its files are refused
		return ""
	case "skills", "commands", "agents", "hooks":
		whole := func(name string) bool {
			return name == dir+"/SKILL.md" || strings.HasPrefix(name, dir+"/.claude-plugin/")
		}
		if !slices.ContainsFunc(names, whole) {
			return ""
		}
	}
	return dir
}

type eachFile func(name string, mode fs.FileMode, target string, r io.Reader) error

func readZip(data []byte, do eachFile) error {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	if len(z.File) > 2*MaxFiles {
		return errTooMany
	}
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		r, err := f.Open()
		if err != nil {
			return fmt.Errorf("%s: %w", plain.Line(f.Name), err)
		}
		target := ""
		if f.Mode()&fs.ModeSymlink != 0 {
			text, terr := io.ReadAll(io.LimitReader(r, 4096))
			target, err = string(text), terr
		}
		if err == nil {
			err = do(strings.TrimPrefix(f.Name, "./"), f.Mode(), target, r)
		}
		r.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func readTar(data []byte, do eachFile) error {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return errors.New("neither a .zip nor a .tar.gz")
	}
	t := tar.NewReader(io.LimitReader(z, MaxBytes+64<<20))
	for n := 0; ; n++ {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case n > 2*MaxFiles:
			return errTooMany
		case h.Typeflag == tar.TypeDir, h.Typeflag == tar.TypeXGlobalHeader:
			continue
		}
		mode := h.FileInfo().Mode()
		if h.Typeflag == tar.TypeLink {
			mode |= fs.ModeIrregular
		}
		if err := do(strings.TrimPrefix(h.Name, "./"), mode, h.Linkname, t); err != nil {
			return err
		}
	}
}

// An Index is a .well-known/agent-skills/index.json, version 0.2.0. Entries of the older version have Files in place of
// URL and Digest.
type Index struct {
	Schema string       `json:"$schema,omitempty"`
	Skills []IndexSkill `json:"skills"`
}

// An IndexSkill is one skill of an Index.
type IndexSkill struct {
	Name        string   `json:"name"`
	Type        string   `json:"type,omitempty"` // skill-md or archive
	Description string   `json:"description,omitempty"`
	URL         string   `json:"url,omitempty"`
	Digest      string   `json:"digest,omitempty"` // sha256:HEX
	Files       []string `json:"files,omitempty"`
}

// IndexSchema identifies version 0.2.0.
const IndexSchema = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"

// indexPlaces are the places of an index on a site, the newer version first.
var indexPlaces = []string{"/.well-known/agent-skills/index.json", "/.well-known/skills/index.json"}

// fetchIndex fetches the skill that the source names from the index of a site.
func (s *Store) fetchIndex(ctx context.Context, g Given, w *writer) error {
	var data []byte
	var err error
	at := g.URL
	if strings.HasSuffix(at, "/index.json") {
		data, err = s.download(ctx, at, g.Typed, maxIndex)
	} else {
		for _, place := range indexPlaces {
			at = strings.TrimRight(g.URL, "/") + place
			if data, err = s.download(ctx, at, g.Typed, maxIndex); err == nil {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	var index Index
	if err := json.Unmarshal(data, &index); err != nil {
		return fmt.Errorf("%s: not an index of skills: %w", plain.Line(at), err)
	}
	var names []string
	for _, k := range index.Skills {
		if k.Name == g.Skill {
			return s.indexed(ctx, g, at, k, w)
		}
		names = append(names, k.Name)
	}
	return fmt.Errorf("%s has no skill %q; it has %s", plain.Line(at), plain.Line(g.Skill), plain.Line(strings.Join(
		names[:min(len(names), 20)], ", ")))
}

// indexed fetches an entry of the index at an address. Its files must be on the same site.
func (s *Store) indexed(ctx context.Context, g Given, at string, k IndexSkill, w *writer) error {
	base, err := url.Parse(at)
	if err != nil {
		return err
	}
	get := func(ref string) ([]byte, error) {
		u, err := base.Parse(ref)
		if err == nil && (u.Host != base.Host || u.Scheme != base.Scheme) {
			err = fmt.Errorf("%s is on another site", plain.Line(ref))
		}
		if err != nil {
			return nil, err
		}
		return s.download(ctx, u.String(), g.Typed, maxArchive)
	}
	if len(k.Files) > 0 && k.URL == "" { // the older version has no digests
		for _, name := range k.Files[:min(len(k.Files), MaxFiles)] {
			data, err := get(path.Join(path.Dir(base.Path), k.Name, name))
			if err == nil {
				err = w.file(name, bytes.NewReader(data), false)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	digest, ok := strings.CutPrefix(strings.ToLower(k.Digest), hashPrefix)
	if !ok || len(digest) != 64 {
		return fmt.Errorf("the index has no sha256 of %s", plain.Line(k.Name))
	}
	data, err := get(k.URL)
	if err != nil {
		return err
	}
	if cmp.Or(k.Type, "archive") == "skill-md" {
		if sum(data) != hashPrefix+digest {
			return fmt.Errorf("%s has the digest %s, not %s", plain.Line(k.URL), sum(data), k.Digest)
		}
		return w.file("SKILL.md", bytes.NewReader(data), false)
	}
	return unpack(data, digest, "", w)
}
