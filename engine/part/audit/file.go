package audit

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

// An Entry is a line of an audit file.
type Entry struct {
	N       int       `json:"n"` // from 1, without gaps, also where the file was rotated
	Time    time.Time `json:"time"`
	Type    Type      `json:"type"`
	User    string    `json:"user"`          // of the system, with the number that it has there
	Dir     string    `json:"dir,omitempty"` // the project's
	Session string    `json:"session,omitempty"`
	Lost    int       `json:"lost,omitempty"` // entries that could not be written

	Call     string    `json:"call,omitempty"`
	Agent    string    `json:"agent,omitempty"` // the sub-agent that made the call; "": the session itself
	Tool     string    `json:"tool,omitempty"`
	Verdict  string    `json:"verdict,omitempty"` // allow or deny; ask: it was refused because nobody could be asked
	Rule     string    `json:"rule,omitempty"`
	Origin   string    `json:"origin,omitempty"` // of the rule
	Reason   string    `json:"reason,omitempty"`
	Mode     string    `json:"mode,omitempty"`   // the permission mode
	Asked    bool      `json:"asked,omitempty"`  // the user was
	Answer   string    `json:"answer,omitempty"` // the user's
	Hook     string    `json:"hook,omitempty"`   // the event whose hook voted
	Subjects []Subject `json:"subjects,omitempty"`
	// Input is the SHA-256 of the input that ran; "": nothing did.
	Input string `json:"input,omitempty"`
	// Scripts are the SHA-256 of the approved files that the call runs, by their paths.
	Scripts map[string]string `json:"scripts,omitempty"`

	Prev string `json:"prev"` // the Hash of the entry before; "": there is none
	// Hash is the SHA-256 of the line without this member, which is the last one.
	Hash string `json:"hash,omitempty"`
}

// A Type says what an Entry is about.
type Type string

const (
	Decision Type = "decision"
	Begin    Type = "session"
	Lost     Type = "lost"
)

// A Subject is one thing that a call does, with what was decided about it. Its text has no keys.
type Subject struct {
	Kind    string `json:"kind"`
	Text    string `json:"text"`
	Verdict string `json:"verdict"`
	Rule    string `json:"rule,omitempty"`
}

// maxSize is how large a file gets before it is rotated, in bytes.
const maxSize = 32 << 20

// A file is an audit file to which several programs append. It is not safe for concurrent use.
type file struct {
	path string
	max  int64 // maxSize, less in tests
	last tail  // as it was after the last append
}

// A tail is where a file ends.
type tail struct {
	size int64
	n    int
	hash string
	open bool // the last line is not complete
}

// hashed is how the hash stands at the end of a line.
const hashed = `,"hash":"`

const hashedLength = len(hashed) + 2*sha256.Size + len(`"}`)

// line returns an entry as a line, and its hash.
func line(e Entry) (text []byte, hash string, err error) {
	e.Hash = ""
	text, err = json.Marshal(e)
	if err != nil {
		return nil, "", err
	}
	hash = hashOf(text)
	text = append(text[:len(text)-1], hashed+hash+"\"}\n"...)
	return text, hash, nil
}

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// split returns a line without its hash, and the hash; ok is false if it has none.
func split(text []byte) (rest []byte, hash string, ok bool) {
	at := len(text) - hashedLength
	if at < 1 || !bytes.HasPrefix(text[at:], []byte(hashed)) || !bytes.HasSuffix(text, []byte(`"}`)) {
		return nil, "", false
	}
	hash = string(text[at+len(hashed) : len(text)-2])
	return append(bytes.Clone(text[:at]), '}'), hash, true
}

// append writes entries, whose N, Prev and Hash it sets, at the end. It waits for other programs until ctx ends. What
// it cannot write whole, it takes back.
func (f *file) append(ctx context.Context, entries []Entry) (err error) {
	lock := flock.New(f.path+".lock", flock.SetPermissions(0o660))
	if err := regularOrMissing(f.path + ".lock"); err != nil {
		return err
	}
	if ok, err := lock.TryLockContext(ctx, 2*time.Millisecond); err != nil || !ok {
		if ctx.Err() != nil {
			return errors.New("another program has locked it")
		}
		return fmt.Errorf("it cannot be locked: %w", err)
	}
	defer lock.Unlock()
	if err := f.rotate(); err != nil {
		return err
	}
	out, err := openRegular(f.path, os.O_RDWR|os.O_APPEND|os.O_CREATE)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	info, err := out.Stat()
	if err != nil {
		return err
	}
	end := f.last
	if info.Size() != end.size || end.size == 0 {
		if end, err = readTail(out, info.Size()); err != nil {
			return err
		}
		if info.Size() == 0 {
			if end, err = lastOfRotated(f.path); err != nil {
				return err
			}
		}
	}
	var text []byte
	if end.open { // a program ended, or the disk was full, within a line: Verify reports it
		text = append(text, '\n')
	}
	for i := range entries {
		end.n++
		entries[i].N, entries[i].Prev = end.n, end.hash
		one, hash, err := line(entries[i])
		if err != nil {
			return err
		}
		text, end.hash = append(text, one...), hash
	}
	if _, err := out.Write(text); err != nil {
		_ = out.Truncate(info.Size()) // it fails where a file can only be appended to: then there is half a line
		f.last = tail{}
		return err
	}
	end.size, end.open = info.Size()+int64(len(text)), false
	f.last = end
	return nil
}

// rotate gives a file that is too large another name. Where that is not possible, because the file can only be appended
// to, it stays: that is the administrator's choice.
func (f *file) rotate() error {
	info, err := os.Lstat(f.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() < f.max {
		return nil
	}
	old, err := openRegular(f.path, os.O_RDONLY)
	if err != nil {
		return err
	}
	end, err := readTail(old, info.Size())
	if err = errors.Join(err, old.Close()); err != nil { // Windows renames no open file
		return err
	}
	if os.Rename(f.path, f.path+"."+strconv.Itoa(end.n)) == nil {
		f.last = tail{}
	}
	return nil
}

func regularOrMissing(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	return err
}

// openRegular opens a file that is neither a link nor a device.
func openRegular(path string, flag int) (*os.File, error) {
	if err := regularOrMissing(path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, flag, 0o600)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	named, err2 := os.Lstat(path)
	if err := errors.Join(err, err2); err != nil || !os.SameFile(opened, named) || !opened.Mode().IsRegular() {
		f.Close()
		return nil, cmp.Or(err, fmt.Errorf("%s is not a regular file", path))
	}
	return f, nil
}

// maxLine is how long a line may be, in bytes. What would be longer is cut before it is written.
const maxLine = 256 << 10

// readTail finds the last entry of a file.
func readTail(f io.ReaderAt, size int64) (tail, error) {
	from := max(0, size-2*maxLine)
	data := make([]byte, size-from)
	if _, err := f.ReadAt(data, from); err != nil && err != io.EOF {
		return tail{}, err
	}
	end := tail{size: size, open: len(data) > 0 && data[len(data)-1] != '\n'}
	lines := bytes.Split(data, []byte("\n"))
	if end.open {
		lines = lines[:len(lines)-1]
	}
	for _, text := range slices.Backward(lines) {
		if e, err := parse(text); err == nil {
			end.n, end.hash = e.N, e.Hash
			return end, nil
		}
	}
	return end, nil
}

// parse decodes a line, and checks its hash.
func parse(text []byte) (Entry, error) {
	rest, hash, ok := split(text)
	if !ok {
		return Entry{}, errors.New("it is not complete")
	}
	var e Entry
	if err := json.Unmarshal(text, &e); err != nil {
		return Entry{}, errors.New("it is not an entry")
	}
	if hashOf(rest) != hash || e.Hash != hash {
		return e, errors.New("it was changed: its hash is not that of its content")
	}
	return e, nil
}

// rotated returns the older files of an audit file, the oldest first.
func rotated(path string) ([]string, error) {
	names, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	var counts []int
	for _, e := range names {
		if text, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+"."); ok {
			if n, err := strconv.Atoi(text); err == nil && strconv.Itoa(n) == text {
				counts = append(counts, n)
			}
		}
	}
	slices.Sort(counts)
	var all []string
	for _, n := range counts {
		all = append(all, path+"."+strconv.Itoa(n))
	}
	return all, nil
}

// lastOfRotated finds the last entry of the newest rotated file.
func lastOfRotated(path string) (tail, error) {
	all, err := rotated(path)
	if err != nil || len(all) == 0 {
		return tail{}, err
	}
	f, err := openRegular(all[len(all)-1], os.O_RDONLY)
	if err != nil {
		return tail{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return tail{}, err
	}
	end, err := readTail(f, info.Size())
	end.size, end.open = 0, false
	return end, err
}
