package coding

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/charset"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/media"
	"github.com/knack-agent/knack/run/tool"
	"github.com/knack-agent/knack/run/tool/truncate"
)

//go:embed read.md
var readText string

//go:embed read.json
var readSchema []byte

type readFS interface {
	pathFS
	Open(ctx context.Context, path string) (workspace.File, error)
}

type readInput struct {
	Path   string `json:"path" jsonschema:"the file, absolute or relative to the working directory"`
	Offset *int   `json:"offset,omitempty" jsonschema:"line to begin with, from 1"`
	Limit  *int   `json:"limit,omitempty" jsonschema:"number of lines, at least 1"`
}

// ReadDetails describes what read returned.
type ReadDetails struct {
	Path     string        `json:"path"` // absolute
	Kind     string        `json:"kind"` // text, image, pdf or notebook
	Size     int64         `json:"size"` // of the file, in bytes
	Encoding string        `json:"encoding,omitempty"`
	Offset   int           `json:"offset,omitempty"` // number of the first line shown
	Lines    int           `json:"lines,omitempty"`  // number of lines shown
	Total    int           `json:"totalLines,omitempty"`
	Cut      *truncate.Cut `json:"truncation,omitempty"`
	MIME     string        `json:"mime,omitempty"`
	Width    int           `json:"width,omitempty"` // of the original image, in pixels
	Height   int           `json:"height,omitempty"`
}

// people describes for the user what was read.
func (d *ReadDetails) people(name string) string {
	switch {
	case d.Kind != "text":
		return fmt.Sprintf("Read the %s %s (%s)", d.Kind, name, plain.Bytes(d.Size))
	case d.Lines == 0:
		return "Read " + name
	case d.Lines < d.Total:
		return fmt.Sprintf("Read %s of %s, from line %d of %d", plain.Count(d.Lines, "line"), name, d.Offset, d.Total)
	}
	return fmt.Sprintf("Read %s of %s", plain.Count(d.Lines, "line"), name)
}

// Limits of files that are read into memory, in bytes.
const (
	maxWhole  = 64 << 20 // images, PDF files, notebooks
	readBlock = 64 << 10
)

func readTool(ws readFS, st *Memory, o FileOptions) tool.Tool {
	t := tool.Define("read", strings.TrimSpace(readText), readSchema, func(ctx context.Context, in readInput,
		call tool.Input) (tool.Result, error) {
		if in.Limit != nil && *in.Limit <= 0 {
			return tool.Result{}, fmt.Errorf("limit is %d: it must be at least 1", *in.Limit)
		}
		abs, err := resolveExisting(ctx, ws, in.Path)
		if err != nil {
			return tool.Result{}, err
		}
		f, err := ws.Open(ctx, abs)
		if err != nil {
			return tool.Result{}, fileError(abs, err)
		}
		defer f.Close()
		real := f.Realpath()
		if err := checkDecided(call, permission.KindRead, abs, real); err != nil {
			return tool.Result{}, err
		}
		info, err := f.Stat()
		if err != nil {
			return tool.Result{}, fileError(abs, err)
		}
		r := &readCall{ctx: ctx, f: f, size: info.Size(), end: info.Size(), model: o.model(), state: st, real: real,
			page: newPage(in), kept: o.kept != "" && strings.HasPrefix(real, o.kept)}
		if r.end == 0 { // files in /proc report no size
			r.end = maxWhole
		}
		r.details = ReadDetails{Path: abs, Size: r.size, Kind: "text"}
		res, err := r.read()
		if err != nil {
			return tool.Result{}, fileError(abs, err)
		}
		res.Details, res.People = r.details, r.details.people(relative(ws.Dir(), abs))
		res.Touched = []string{abs}
		return res, nil
	})
	t.Effect, t.Aliases = tool.Reads, []string{"Read"}
	t.Guidelines = guidelines("Read a file before you change it; read with read, not with cat.")
	t.Fields = []tool.Field{{Name: "path", Other: []string{"file_path", "filePath", "notebook_path"}, Hooks: "file_path"}}
	t.Summary = tool.SummaryOf(func(in readInput) string { return in.Path })
	t.Key = fileKey(ws, func(in readInput) string { return in.Path })
	t.Locate = locateFile(ws, resolveExisting)
	t.Subjects = pathSubjects(ws, permission.KindRead, resolveExisting, func(in readInput) string { return in.Path })
	return t
}

// pathSubjects returns the Subjects of a tool that acts on one path.
func pathSubjects[In any](ws pathFS, kind permission.Kind, resolve func(context.Context, pathFS, string) (string,
	error),
	path func(In) string) func(context.Context, json.RawMessage) ([]permission.Subject, error) {
	return func(ctx context.Context, data json.RawMessage) ([]permission.Subject, error) {
		var in In
		if err := json.Unmarshal(data, &in); err != nil {
			return nil, err
		}
		abs, err := resolve(ctx, ws, path(in))
		if err != nil {
			return nil, err
		}
		return subjects(ctx, ws, kind, abs), nil
	}
}

// A readCall is one call of read on an open file.
type readCall struct {
	ctx     context.Context
	f       workspace.File
	size    int64 // when the file was opened
	end     int64 // end of what is read, even if the file grows
	model   llm.Info
	state   *Memory
	real    string
	page    *truncate.Page
	kept    bool // commands cannot open it
	details ReadDetails
}

func (r *readCall) read() (tool.Result, error) {
	first := make([]byte, readBlock)
	n, err := io.ReadFull(io.NewSectionReader(r.f, 0, r.end), first)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return tool.Result{}, err
	}
	first = first[:n]
	if mime := media.ImageType(first); mime != "" {
		return r.image(mime)
	}
	enc := charset.Begins(first)
	if media.IsPDF(first) {
		return r.pdf()
	}
	if !enc.Wide() && charset.Binary(first) {
		return tool.Result{}, fmt.Errorf("%s is a binary file (%s, %s): read shows text, images, PDF files and notebooks",
			r.details.Path, binaryKind(first), plain.Size(r.size))
	}
	if bytes.HasPrefix(bytes.TrimLeft(first, " \t\r\n"), []byte("{")) && bytes.Contains(first, []byte(`"cells"`)) &&
		r.size <= maxWhole {
		if res, ok, err := r.notebook(); ok || err != nil {
			return res, err
		}
	}
	return r.text(enc)
}

// whole reads the file into memory.
func (r *readCall) whole() ([]byte, error) {
	if r.size > maxWhole {
		return nil, fmt.Errorf("%s is too large to be shown (%s, at most %s)", r.details.Path, plain.Size(r.size),
			plain.Size(maxWhole))
	}
	data := make([]byte, r.size)
	n, err := io.ReadFull(io.NewSectionReader(r.f, 0, r.size), data)
	if err == io.EOF || err == io.ErrUnexpectedEOF { // the file shrank
		err = nil
	}
	if err == nil {
		r.state.recordHash(r.real, hashBytes(data[:n]))
	}
	return data[:n], err
}

// text reads the file through a page.
func (r *readCall) text(enc charset.Encoding) (tool.Result, error) {
	var hash maphash.Hash
	hash.SetSeed(seed)
	src := io.NewSectionReader(r.f, 0, r.end)
	buf := make([]byte, readBlock)
	var decoded []byte
	have, skip := 0, len(enc.Mark())
	for {
		if err := r.ctx.Err(); err != nil {
			return tool.Result{}, context.Cause(r.ctx)
		}
		n, err := src.Read(buf[have:])
		hash.Write(buf[have : have+n])
		have += n
		if skip > 0 && have >= skip {
			have = copy(buf, buf[skip:have])
			skip = 0
		}
		end := err == io.EOF
		if err != nil && !end {
			return tool.Result{}, err
		}
		if enc.Wide() {
			whole := enc.Whole(buf[:have])
			if end {
				whole = have
			}
			decoded = enc.Decode(decoded[:0], buf[:whole])
			r.page.Write(decoded)
			have = copy(buf, buf[whole:have])
		} else {
			r.page.Write(buf[:have])
			have = 0
		}
		if end {
			break
		}
	}
	r.state.recordHash(r.real, hash.Sum64())
	return r.show(enc)
}

// show returns the result for a text that was written to the page.
func (r *readCall) show(enc charset.Encoding) (tool.Result, error) {
	p := r.page
	total := p.Total()
	if p.Offset > max(total, 1) {
		return tool.Result{}, fmt.Errorf("offset %d is beyond the end of the file (%s)", p.Offset, count(total, "line"))
	}
	text, c := p.End()
	var notes []string
	if !utf8.ValidString(text) || enc == charset.UTF8 && strings.Contains(text, "\x1b$") {
		var err error
		if enc, err = r.guess(); err != nil {
			return tool.Result{}, err
		}
		text = valid(text, enc)
		limits := p.Limits
		if again, c2 := truncate.ToHead(text, limits); c2.By != "" {
			text, c.By, c.Lines, c.Bytes, c.LineBytes = again, c2.By, c2.Lines, c2.Bytes, c2.LineBytes
		}
	}
	switch {
	case enc == charset.UTF8, enc == charset.UTF8BOM:
	case enc == charset.MixedUTF8:
		notes = append(notes, "[Bytes that are not valid UTF-8 are shown as \ufffd.]")
	case enc.Guessed():
		notes = append(notes, fmt.Sprintf("[The file is not UTF-8. It was decoded as %s, which is a guess; edit and write keep "+
			"that encoding.]", enc))
		r.details.Encoding = enc.String()
	default:
		notes = append(notes, fmt.Sprintf("[The file is %s and was decoded to UTF-8.]", enc))
		r.details.Encoding = enc.String()
	}
	switch notice := p.Notice(c, "file"); {
	case total == 0:
		notes = append(notes, "[The file is empty.]")
	case c.LineBytes > 0 && r.kept:
		notes = append(notes, fmt.Sprintf("[Line %d is %s, exceeds %s limit. Commands cannot open the file.]",
			p.Offset, plain.Size(c.LineBytes), plain.Size(int64(p.Bytes))))
	case c.LineBytes > 0:
		notes = append(notes, fmt.Sprintf("[Line %d is %s, exceeds %s limit. Use bash: sed -n '%dp' %s | head -c %d]",
			p.Offset, plain.Size(c.LineBytes), plain.Size(int64(p.Bytes)), p.Offset, quote(r.details.Path), p.Bytes))
	case notice != "":
		notes = append(notes, notice)
	}
	if len(notes) > 0 {
		if text = strings.TrimSuffix(text, "\n"); text != "" {
			text += "\n\n"
		}
		text += strings.Join(notes, "\n")
	}
	if c.By != "" {
		c.TotalLines, c.TotalBytes = total, p.Size()
		r.details.Cut = &c
	}
	r.details.Offset, r.details.Lines, r.details.Total = p.Offset, c.Lines, total
	return tool.Text(text), nil
}

// guess returns the encoding of the file, which seems not to be UTF-8: as edit and write do, from its beginning.
func (r *readCall) guess() (charset.Encoding, error) {
	data := make([]byte, min(r.end, charset.MaxGuess+1))
	n, err := io.ReadFull(io.NewSectionReader(r.f, 0, r.end), data)
	if err == io.EOF || err == io.ErrUnexpectedEOF { // the file shrank
		err = nil
	}
	return charset.Detect(data[:n]), err
}

// valid decodes text that may not be UTF-8.
func valid(text string, enc charset.Encoding) string {
	return strings.ToValidUTF8(string(enc.Decode(nil, []byte(text))), "\ufffd")
}

// quote quotes a path for a shell.
func quote(path string) string {
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,@%=:") == "" {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

func count(n int, noun string) string { return fmt.Sprintf("%d %s", n, plural(n, noun)) }

func newPage(in readInput) *truncate.Page {
	offset, take := 1, -1
	if in.Offset != nil {
		offset = max(1, *in.Offset)
	}
	if in.Limit != nil {
		take = *in.Limit
	}
	return truncate.NewPage(offset, take, truncate.Default())
}

// binaryKind returns the type of a binary file, from its first bytes.
func binaryKind(first []byte) string {
	for _, k := range []struct {
		at          int
		magic, kind string
	}{
		{0, "\x7fELF", "ELF executable"}, {0, "MZ", "Windows executable"},
		{0, "\xcf\xfa\xed\xfe", "Mach-O executable"}, {0, "\xca\xfe\xba\xbe", "Mach-O executable or Java class"},
		{0, "PK\x03\x04", "ZIP archive or office document"}, {0, "\x1f\x8b", "gzip data"}, {0, "BZh", "bzip2 data"},
		{0, "\xfd7zXZ\x00", "xz data"}, {0, "\x28\xb5\x2f\xfd", "zstd data"}, {0, "7z\xbc\xaf", "7-Zip archive"},
		{257, "ustar", "tar archive"}, {0, "SQLite format 3", "SQLite database"}, {0, "\x00asm", "WebAssembly module"},
		{0, "II*\x00", "TIFF image"}, {0, "MM\x00*", "TIFF image"}, {0, "\x00\x00\x01\x00", "icon"},
		{0, "wOF", "font"}, {0, "\x00\x01\x00\x00\x00", "font"}, {0, "OTTO", "font"},
		{4, "ftypavif", "AVIF image"}, {4, "ftyphei", "HEIC image"}, {4, "ftyp", "MP4 video"},
		{0, "OggS", "Ogg media"}, {0, "ID3", "MP3 audio"}, {0, "RIFF", "RIFF media"},
		{0, "\xd0\xcf\x11\xe0", "old office document"},
		{0, "!<arch>", "library archive"},
	} {
		if len(first) > k.at && bytes.HasPrefix(first[k.at:], []byte(k.magic)) {
			return k.kind
		}
	}
	return "unknown kind"
}

// name returns the file's name for the model.
func (r *readCall) name() string { return filepath.Base(r.details.Path) }
