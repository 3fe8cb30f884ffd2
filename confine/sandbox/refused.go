package sandbox

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/knack-agent/knack/confine/workspace"
)

// keepOutput is the number of bytes at the end of a command's output that are searched for
// refusals.
const keepOutput = 64 << 10

// A watcher keeps the end of a command's output.
type watcher struct {
	mu      sync.Mutex // Output and Stderr may be written at the same time
	lines   []byte
	stopped []string // by git's messages before lines
}

// watch attaches a watcher to a command's output.
func watch(c *workspace.Command) *watcher {
	w := new(watcher)
	if c.Output != nil {
		c.Output = &tee{w: w, to: c.Output}
	}
	if c.Stderr != nil {
		c.Stderr = &tee{w: w, to: c.Stderr}
	}
	return w
}

type tee struct {
	w  *watcher
	to io.Writer
}

func (t *tee) Write(b []byte) (int, error) {
	t.w.add(b)
	return t.to.Write(b)
}

func (w *watcher) add(b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, b...)
	if over := len(w.lines) - keepOutput; over > keepOutput { // not at every write
		over = max(over, bytes.IndexByte(w.lines[over:], '\n')+1+over)
		w.stopped = append(w.stopped, stoppedAt(w.lines[:over])...)
		w.lines = append(w.lines[:0], w.lines[over:]...)
	}
}

// gitStopped matches what git prints of a file in the work tree that it cannot replace, remove or create.
var gitStopped = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)(?:unable to unlink(?: old)? '|unable to create file |` +
		`cannot create directory at '|cannot unlink '|could not unlink '?)([^\n]+?)'?: [^:\n]+$`)
})

// stoppedAt returns the files in the work tree that git's messages in an output say it could not change, as they stand
// there: relative to the top of the work tree.
func stoppedAt(output []byte) (names []string) {
	for _, m := range gitStopped().FindAllSubmatch(output, 1000) {
		names = append(names, string(m[1]))
	}
	return names
}

// stoppedGit returns the files of stoppedAt in the whole output.
func (w *watcher) stoppedGit() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append(slices.Clip(w.stopped), stoppedAt(w.lines)...)
}

// Parts of messages that programs print when the kernel denies access.
var refusals = []string{
	"read-only file system", "erofs", "permission denied", "eacces", "operation not permitted", "eperm",
	"device or resource busy", "ebusy", "resource busy", "invalid cross-device link", "exdev",
}

var unreachable = []string{
	"could not resolve host", "temporary failure in name resolution", "name or service not known",
	"network is unreachable", "getaddrinfo", "no such host", "enetunreach", "nodename nor servname",
	"failed to lookup address", "server misbehaving", "connection refused",
}

// noNetwork are those of unreachable that mean the network, whatever the line names.
var noNetwork = []string{"network is unreachable", "enetunreach"}

// maxRefused limits the refusals reported for one command; the others are counted, at most maxCounted.
const (
	maxRefused = 10
	maxCounted = 1000
	maxAlike   = 3 // of files in one directory
)

// A judge returns a message if the policy refuses a path named by a command in dir: the reason and
// the rule that would allow it. "" if the policy does not refuse it.
type judge interface {
	judge(dir, name string) string
	// absent returns what to say of a file of the machine that the command did not find, because another directory was
	// in its place; "" if that is not so.
	absent(name string) string
}

// absences are parts of messages that programs print when there is no such file.
var absences = []string{"no such file", "enoent", "not found", "cannot find", "does not exist"}

// read searches the output for refused paths and hosts. It interprets messages and may miss some,
// but everything it reports is refused by the policy.
func (w *watcher) read(dir string, j judge, host func(name, line string) string) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []string
	more, alike := 0, map[string]int{}
	seen := map[string]bool{}
	add := func(s, dir string) {
		if s == "" || seen[s] || len(seen) >= maxCounted {
			return
		}
		seen[s] = true
		if dir != "" {
			alike[dir]++
		}
		if len(found) >= maxRefused || alike[dir] > maxAlike {
			more++
			return
		}
		found = append(found, s)
	}
	for line := range bytes.Lines(w.lines) {
		if len(line) > 4096 {
			line = line[:4096]
		}
		low := strings.ToLower(string(line))
		if containsAny(low, refusals) {
			for i, word := range words(string(line)) {
				if i == 0 && isProgram(word) {
					continue // the program that prints the message, not its subject
				}
				if strings.Contains(string(line), "<file:"+word+">") {
					continue // a page to read
				}
				if strings.Contains(word, "/") || strings.HasPrefix(word, ".") {
					word = strings.TrimPrefix(word, "file://")
					add(j.judge(dir, word), filepath.Dir(word))
				}
			}
		}
		if strings.Contains(low, "unable to create temporary object directory") {
			add("writing the other repository: git cannot push to this branch in the sandbox, because it would lock a file "+
				"beside the hooks. Push to another branch, or let the user push outside the sandbox: !!git push", "")
		}
		if containsAny(low, absences) {
			for _, word := range words(string(line)) {
				if strings.HasPrefix(word, "/tmp/") {
					add(j.absent(word), "")
				}
			}
		}
		if containsAny(low, unreachable) {
			named := false
			for _, word := range words(string(line)) {
				if name, ok := hostIn(word); ok {
					named = true
					if !isLoopback(name) && !isResolver(name, low) {
						add(host(name, low), "")
					}
				}
			}
			if !named && containsAny(low, noNetwork) {
				add(host("", low), "")
			}
		}
	}
	if more > 0 {
		found = append(found, fmt.Sprintf("%d more like these", more))
	}
	return found
}

// isResolver reports whether a message names an address as the server that was asked for a name, as Go's programs do:
// "lookup x.example on 10.0.0.2:53: no such host".
func isResolver(host, line string) bool { return strings.Contains(line, " on "+host+":53") }

func containsAny(s string, subs []string) bool {
	return slices.ContainsFunc(subs, func(sub string) bool { return strings.Contains(s, sub) })
}

// words splits a message into words that may be paths or hosts.
func words(line string) []string {
	return strings.FieldsFunc(line, func(r rune) bool {
		return r <= ' ' || strings.ContainsRune("'\"`‘’“”()[]<>,;:=", r)
	})
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// hostIn returns the host name or address in a word of a message. A name that ends like java.net.ConnectException is
// that of an error.
func hostIn(word string) (string, bool) {
	if last := word[strings.LastIndexByte(word, '.')+1:]; last != strings.ToLower(last) && last != strings.ToUpper(last) {
		return "", false
	}
	word = strings.Trim(strings.ToLower(word), ".!?")
	word = strings.TrimPrefix(word, "//")
	word, _, _ = strings.Cut(word, "/")
	dot := strings.LastIndexByte(word, '.')
	if dot <= 0 || strings.HasPrefix(word, ".") {
		return "", false
	}
	for _, r := range word {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '.' && r != '-' {
			return "", false
		}
	}
	top := word[dot+1:]
	if strings.HasSuffix(top, "error") || strings.HasSuffix(top, "exception") {
		return "", false // socket.gaierror
	}
	letters := len(top) >= 2 && strings.Trim(top, "abcdefghijklmnopqrstuvwxyz") == ""
	digits := strings.Count(word, ".") == 3 && strings.Trim(word, "0123456789.") == ""
	return word, letters || digits
}

// The rules that would allow access to a path, in the syntax of package permission.
func editRule(path string) string { return "Edit(/" + path + ")" }
func readRule(path string) string { return "Read(/" + path + ")" }
