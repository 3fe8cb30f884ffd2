package permission

import "time"

// NewGitSoon is NewGit for tests: a file counts as settled after a twentieth of a second, for which a test can wait.
// That is longer than a tick of the clock from which Linux takes change times.
func NewGitSoon(dir string) *Git {
	g := NewGit(dir)
	g.minFileAge = 50 * time.Millisecond
	return g
}
