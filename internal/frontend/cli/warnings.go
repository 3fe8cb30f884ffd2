package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/hook"
	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/session"
)

// knownWarnings are the warnings that earlier runs printed. A warning is printed once, and again when its file has
// changed; in each run it would be noise.
type knownWarnings struct {
	file   string            // "": nothing is kept
	stamps map[string]string // by a hash of the warning: size and modification time of its file

	mu         sync.Mutex // for what follows and stamps: hooks end while a run goes on
	changed    bool
	printed    int // lines of new ones that were printed
	again      int // warnings that an earlier run printed
	trust      int // of these, those that trusting the project resolves
	held       int // new ones that are only counted
	hooks      int // hooks that could not be run and are not named
	refused    int // warnings about what the sandbox refused that are not printed
	servers    int // problems of servers that an earlier run printed
	newServers []knack.Problem
}

// maxWarnings limits what is kept. If there are more, all are forgotten and printed once more.
const maxWarnings = 5000

func readWarnings() *knownWarnings {
	k := &knownWarnings{file: engine.Env(nil).StateFile("warnings.json"), stamps: map[string]string{}}
	if k.file == "" {
		return k
	}
	// If the file is damaged, everything is shown once more.
	if data, err := os.ReadFile(k.file); err == nil && (json.Unmarshal(data, &k.stamps) != nil || len(k.stamps) > maxWarnings) {
		k.stamps = map[string]string{}
	}
	return k
}

// seen reports whether an earlier run printed a warning, and records it. path is the file that it is about; another
// version of that file makes it new.
func (k *knownWarnings) seen(code knack.Code, path, message string) bool {
	if k.file == "" {
		return false
	}
	key, stamp := warningKey(code, path, message), ""
	if info, err := os.Stat(path); filepath.IsAbs(path) && err == nil {
		stamp = fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if was, ok := k.stamps[key]; ok && was == stamp {
		return true
	}
	k.stamps[key], k.changed = stamp, true
	return false
}

func warningKey(code knack.Code, path, message string) string {
	sum := sha256.Sum256([]byte(string(code) + "\x00" + path + "\x00" + message))
	return hex.EncodeToString(sum[:12])
}

// newOnes returns the problems without the warnings that an earlier run printed.
func (k *knownWarnings) newOnes(problems []knack.Problem) (left []knack.Problem) {
	for _, p := range problems {
		if p.Severity == knack.Warn && k.seen(p.Code, p.Path, p.Message) {
			k.again++
			if p.Code == knack.CodeUntrusted || p.Code == knack.CodeChanged {
				k.trust++
			}
			continue
		}
		left = append(left, p)
	}
	return left
}

// aFew returns the problems with at most two lines of warnings, counting the one that close writes. Those about no
// single file come first. It counts the others, or leaves them to the next run if there is no room for their count.
func (k *knownWarnings) aFew(problems []knack.Problem) (left []knack.Problem) {
	warns := func(p knack.Problem) bool { return p.Severity == knack.Warn }
	general, n := 0, 0
	for _, p := range problems {
		if warns(p) && p.Path == "" {
			general++
		} else if warns(p) {
			n++
		}
	}
	k.printed += general
	room := 2 - k.printed
	if n > room || n == room && k.again > 0 {
		room--
	}
	for _, p := range problems {
		if warns(p) && p.Path != "" {
			if room--; room < 0 {
				k.hold(p)
				continue
			}
			k.printed++
		}
		left = append(left, p)
	}
	return left
}

// hold counts a warning that is not printed, or forgets it if two lines were printed.
func (k *knownWarnings) hold(p knack.Problem) {
	if k.printed < 2 {
		k.held++
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.stamps, warningKey(p.Code, p.Path, p.Message))
}

// room reports whether a line about a hook can be printed. k.mu is held.
func (k *knownWarnings) room() bool {
	return k.printed == 0 || k.printed == 1 && k.held == 0 && k.again == 0
}

// ofServer takes a warning about an MCP server, for close: servers fail while a run goes on, one after the other.
func (k *knownWarnings) ofServer(p knack.Problem) {
	message := strings.Map(func(r rune) rune { // without times and process numbers
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, p.Message)
	known := k.seen(p.Code, p.Path, message)
	k.mu.Lock()
	defer k.mu.Unlock()
	if known {
		k.servers++
		return
	}
	k.newServers = append(k.newServers, p)
}

// ofHook reports whether the failure of a hook need not be printed: that its program is missing is said once, and only
// if there is room for it. Guards decide about calls, so theirs are always printed, and so is any other reason, such as
// a script that changed since it was trusted.
func (k *knownWarnings) ofHook(note *session.Note) bool {
	if !note.Missing || hook.Event(note.Hook).Guards() {
		return false
	}
	k.mu.Lock()
	room := k.room()
	k.mu.Unlock()
	known := room && k.seen(knack.CodeHookInvalid, "", note.People)
	k.mu.Lock()
	defer k.mu.Unlock()
	if room && !known {
		k.printed++
		return false
	}
	k.hooks++
	return true
}

// ofSandbox reports whether a warning about what the sandbox refused need not be printed: as ofHook.
func (k *knownWarnings) ofSandbox(p knack.Problem) bool {
	k.mu.Lock()
	room := k.room()
	k.mu.Unlock()
	known := room && k.seen(p.Code, p.Path, p.Message)
	k.mu.Lock()
	defer k.mu.Unlock()
	if room && !known {
		k.printed++
		return false
	}
	k.refused++
	return true
}

// close writes one line about the warnings that were left out, and keeps those that were printed.
func (k *knownWarnings) close(w io.Writer, p *engine.Project) {
	k.mu.Lock()
	defer k.mu.Unlock()
	newServers := len(k.newServers)
	switch {
	case newServers == 0 || k.printed > 0:
	case newServers == 1:
		printProblem(w, p, k.newServers[0])
		newServers = 0
	default:
		printProblem(w, p, serverProblems(newServers))
		newServers = 0
	}
	if k.changed {
		if data, err := json.Marshal(k.stamps); err == nil {
			_ = atomicfile.Write(k.file, data, 0o600) // if it fails, they are shown again
		}
	}
	var parts []string
	switch {
	case k.held > 0 && k.again > 0:
		parts = append(parts, fmt.Sprintf("%s, and %d as before: knack doctor", plain.Count(k.held, "more warning"), k.again))
	case k.held > 0:
		parts = append(parts, plain.Count(k.held, "more warning")+": knack doctor")
	case k.again > 0:
		parts = append(parts, plain.Count(k.again, "warning")+" as before: knack doctor")
	}
	if k.trust > 0 {
		parts = append(parts, fmt.Sprintf("%d until you trust this folder: knack trust", k.trust))
	}
	switch {
	case newServers > 0:
		parts = append(parts, plain.Count(newServers+k.servers, "problem")+" of servers: knack mcp test")
	case k.servers > 0:
		parts = append(parts, plain.Count(k.servers, "problem")+" of servers as before: knack mcp test")
	}
	if k.hooks > 0 {
		parts = append(parts, plain.Count(k.hooks, "hook")+" could not be run: knack help hooks")
	}
	if k.refused > 0 {
		parts = append(parts, fmt.Sprintf("the sandbox refused something in hooks, %s: knack -p -v names it",
			plain.Count(k.refused, "time")))
	}
	if len(parts) > 0 {
		fmt.Fprintln(w, "knack: warn:", strings.Join(parts, "; "))
	}
	k.changed, k.held, k.again, k.trust, k.servers, k.hooks, k.refused, k.newServers = false, 0, 0, 0, 0, 0, 0, nil
}
