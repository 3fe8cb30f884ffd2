package local

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// holdTries is how often Hold tries again, 10 ms apart: Held locks the file for a moment.
const holdTries = 30

// Hold marks this process as the one that works on a batch, until it ends or calls release. It reports false if another
// one does.
func (q *Queue) Hold(batch string) (release func(), ok bool, err error) {
	lock := q.holder(batch)
	for try := 0; ; try++ {
		ok, err = lock.TryLock()
		if ok {
			return func() { _ = lock.Unlock() }, true, nil
		}
		if err != nil || try == holdTries {
			return nil, false, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Held reports whether a process has called Hold for a batch and not ended.
func (q *Queue) Held(batch string) bool {
	lock := q.holder(batch)
	if _, err := os.Lstat(lock.Path()); err != nil {
		return false
	}
	ok, err := lock.TryRLock() // two that look do not disturb each other
	if ok {
		_ = lock.Unlock()
	}
	return err == nil && !ok
}

// holder returns the lock of a batch. Its file stays: removing one that somebody is about to lock would let two have
// it.
func (q *Queue) holder(batch string) *flock.Flock {
	return flock.New(filepath.Join(q.dir, "workers", "of-"+hex.EncodeToString([]byte(batch))+".lock"),
		flock.SetPermissions(0o600))
}
