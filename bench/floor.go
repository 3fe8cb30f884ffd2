package bench

import (
	"crypto/sha256"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
)

// Floor calls file for each file in the directories of dir, for several at the same time, and
// returns the number of files. It does nothing else, so it is a lower bound for what a loader
// needs.
func Floor(dir string, file func(path string, buf []byte) error) (int, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	work := make(chan []fs.DirEntry, len(entries)/64+1)
	for part := range slices.Chunk(entries, 64) {
		work <- part
	}
	close(work)
	var wg sync.WaitGroup
	var mu sync.Mutex
	total := 0
	var failed error
	for range max(4, 2*runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			buf := make([]byte, 4<<10)
			for part := range work {
				for _, e := range part {
					n, err := eachFile(filepath.Join(dir, e.Name()), buf, file)
					mu.Lock()
					if total += n; err != nil {
						failed = err
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return total, failed
}

func eachFile(dir string, buf []byte, file func(path string, buf []byte) error) (n int, err error) {
	files, err := os.ReadDir(dir)
	for _, f := range files {
		if err := file(filepath.Join(dir, f.Name()), buf); err != nil {
			return n, err
		}
		n++
	}
	return n, err
}

// ReadHead reads the first len(buf) bytes of a file.
func ReadHead(path string, buf []byte) error {
	h, err := os.Open(path)
	if err != nil {
		return err
	}
	defer h.Close()
	_, err = h.Read(buf)
	return err
}

// StatFile only calls stat on a file.
func StatFile(path string, _ []byte) error {
	_, err := os.Lstat(path)
	return err
}

// ReadHash reads a file and hashes it.
func ReadHash(path string, _ []byte) error {
	data, err := os.ReadFile(path)
	sum := sha256.Sum256(data)
	runtime.KeepAlive(sum)
	return err
}
