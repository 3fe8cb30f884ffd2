package trust

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/scripts"
	"github.com/knack-agent/knack/internal/leaf/skilldir"
)

// A manifest lists every file of a folder. The hash of a folder is the hash of the manifest's text:
//
//	knack manifest 1
//	f <sha256> <size> "scripts/run.py"    a file
//	x <sha256> <size> "scripts/run.sh"    an executable file
//	l <sha256 of the target> 0 "docs"     a link; its target is not part of the folder
type manifest []entry

type entry struct {
	kind byte // f, x, l
	hash string
	size int64
	path string // with slashes
}

const manifestHead = "knack manifest 1\n"

// readManifest hashes a skill's folder. root means that it is a skills root, see [skilldir.Walk].
// Links are recorded but not followed. Anything other than a file, directory or link is an error.
func readManifest(dir string, root bool) (manifest, error) {
	in, err := regular.Root(dir)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var m manifest
	var total int64
	sum := sha256.New()
	var buf []byte
	err = skilldir.Walk(in.FS(), root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if strings.Count(name, "/") >= maxDepth {
				return fmt.Errorf("directories are nested more than %d deep", maxDepth)
			}
			return nil
		}
		if len(m) == maxFolderFiles {
			return fmt.Errorf("more than %d files", maxFolderFiles)
		}
		e := entry{kind: 'f', path: name}
		sum.Reset()
		switch {
		case d.Type()&fs.ModeSymlink != 0:
			target, err := in.Readlink(name)
			if err != nil {
				return err
			}
			e.kind = 'l'
			io.WriteString(sum, target)
		case d.Type().IsRegular():
			f, err := in.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			info, err := f.Stat()
			if err != nil {
				return err
			}
			if !info.Mode().IsRegular() {
				return fmt.Errorf("%s: not a regular file", name)
			}
			if info.Mode()&0o111 != 0 {
				e.kind = 'x'
			}
			if need := int(min(max(info.Size()+1, 512), 64<<10)); need > len(buf) { // most files are small
				buf = make([]byte, need)
			}
			if e.size, err = io.CopyBuffer(sum, io.LimitReader(f, maxFolderBytes-total+1), buf); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s: not a file, directory or link", name)
		}
		if total += e.size; total > maxFolderBytes {
			return fmt.Errorf("larger than %d bytes", maxFolderBytes)
		}
		e.hash = hex.EncodeToString(sum.Sum(nil))
		m = append(m, e)
		return nil
	})
	return m, err
}

func (m manifest) text() []byte {
	m = order.Sorted(m, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	b := []byte(manifestHead)
	for _, e := range m {
		b = append(b, e.kind, ' ')
		b = append(b, e.hash...)
		b = append(b, ' ')
		b = strconv.AppendInt(b, e.size, 10)
		b = append(b, ' ')
		b = strconv.AppendQuote(b, e.path)
		b = append(b, '\n')
	}
	return b
}

func (m manifest) hash() string { return hash(m.text()) }

func parseManifest(data []byte) (manifest, error) {
	data, ok := bytes.CutPrefix(data, []byte(manifestHead))
	if !ok {
		return nil, fmt.Errorf("not a manifest")
	}
	var m manifest
	for line := range strings.Lines(string(data)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 4)
		if len(f) != 4 || len(f[0]) != 1 {
			return nil, fmt.Errorf("not a line of a manifest: %q", line)
		}
		size, err := strconv.ParseInt(f[2], 10, 64)
		if err != nil {
			return nil, err
		}
		name, err := strconv.Unquote(f[3])
		if err != nil {
			return nil, err
		}
		m = append(m, entry{f[0][0], f[1], size, name})
	}
	return m, nil
}

// summary describes in a line or two what a folder contains besides its text.
func (m manifest) summary() []string {
	var runs, links []string
	for _, e := range m {
		switch {
		case e.kind == 'l':
			links = append(links, e.path)
		case e.kind == 'x' || scripts.HasSuffix(e.path):
			runs = append(runs, e.path)
		}
	}
	var lines []string
	if len(runs) > 0 {
		lines = append(lines, "scripts: "+plain.List(runs, 8))
	}
	if len(links) > 0 {
		lines = append(lines, "links (not followed): "+plain.List(links, 8))
	}
	return lines
}
