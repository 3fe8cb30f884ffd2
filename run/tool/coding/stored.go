package coding

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

const (
	fileNames = "knack-bash-*.log" // a pattern for os.CreateTemp and filepath.Match
	// keepFiles is how long the files with outputs are kept: the model may read one in a resumed session.
	keepFiles = 30 * 24 * time.Hour
	// maxStored limits the bytes that are kept of one output, and maxInDir those of all in a directory.
	maxStored = 64 << 20
	maxInDir  = 1 << 30
)

// A stored is a file with an output. Of one that is longer than limit it has the first half of limit and
// the last, which is a ring until tidy is called. Offsets are those of the whole output.
type stored struct {
	*os.File
	limit, size int64
}

// create makes a file in dir, and removes old ones so that there is room for it. CreateTemp uses mode 0600 and
// never opens an existing file.
func create(dir string, limit int64) (*stored, error) {
	if dir != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		makeRoom(dir, maxInDir-limit)
	}
	f, err := os.CreateTemp(dir, fileNames)
	if err != nil {
		return nil, err
	}
	return &stored{File: f, limit: limit}, nil
}

// at returns the place of an offset in the file, and how many bytes from there on follow each other.
func (s *stored) at(offset int64) (place, room int64) {
	half := s.limit / 2
	if offset < half {
		return offset, half - offset
	}
	place = half + (offset-half)%half
	return place, s.limit - place
}

// left returns where the bytes begin and end that were not kept; both are 0 if all were.
func (s *stored) left() (from, to int64) {
	if s.size <= s.limit {
		return 0, 0
	}
	return s.limit / 2, s.size - s.limit/2
}

// Write adds to the output.
func (s *stored) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		place, room := s.at(s.size)
		n, err := s.File.WriteAt(rest[:min(int64(len(rest)), room)], place)
		if s.size += int64(n); err != nil {
			return len(p) - len(rest) + n, err
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// copyTo writes the output between two offsets to w, with a line in the place of what was not kept.
func (s *stored) copyTo(w io.Writer, from, to int64) error {
	lost, until := s.left()
	for from < to {
		if from >= lost && from < until {
			end := min(until, to)
			if _, err := fmt.Fprintf(w, "\n[%s were not kept]\n", plain.Size(end-from)); err != nil {
				return err
			}
			from = end
			continue
		}
		place, room := s.at(from)
		n := min(room, to-from)
		if from < lost {
			n = min(n, lost-from)
		}
		if _, err := io.Copy(w, io.NewSectionReader(s.File, place, n)); err != nil {
			return err
		}
		from += n
	}
	return nil
}

// tidy rewrites a file of which something was not kept in the order of the output. The file must not be
// written afterwards.
func (s *stored) tidy() error {
	if s.size <= s.limit {
		return nil
	}
	path := s.Name()
	f, err := os.CreateTemp(filepath.Dir(path), fileNames)
	if err != nil {
		return err
	}
	if err = s.copyTo(f, 0, s.size); err == nil {
		s.File.Close()
		if err = f.Close(); err == nil {
			err = os.Rename(f.Name(), path)
		}
	}
	if err != nil {
		f.Close()
		os.Remove(f.Name())
	}
	return err
}

// makeRoom removes old files that create has made in dir, where a host may have others, and then the oldest until
// they have no more than a number of bytes. One that cannot be removed stays until the next time.
func makeRoom(dir string, most int64) {
	entries, _ := os.ReadDir(dir) // those that could be read
	var files []os.FileInfo
	var size int64
	for _, e := range entries {
		if ours, err := filepath.Match(fileNames, e.Name()); !ours || err != nil {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			files = append(files, info)
			size += info.Size()
		}
	}
	order.Stable(files, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, f := range files {
		if size <= most && time.Since(f.ModTime()) <= keepFiles {
			break
		}
		os.Remove(filepath.Join(dir, f.Name()))
		size -= f.Size()
	}
}
