package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/internal/leaf/order"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/hook"
	"github.com/knack-agent/knack/run/session"
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
	hooks      int // failures of hooks that are not printed
	refused    int // warnings about what the sandbox refused that are not printed
	servers    int // problems of servers that an earlier run printed
	newServers []knack.Problem
	errors     map[string]bool // that this run printed
}

// repeats reports whether this run has printed the same error.
func (k *knownWarnings) repeats(p knack.Problem) bool {
	if p.Severity != knack.Error {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	text := p.String()
	if k.errors == nil {
		k.errors = map[string]bool{}
	}
	again := k.errors[text]
	k.errors[text] = true
	return again
}

// maxLines is how many lines of warnings a run prints.
const maxLines = 2

// maxWarnings limits what is kept. If there are more, all are forgotten and printed once more.
const maxWarnings = 5000

func readWarnings() *knownWarnings {
	k := &knownWarnings{file: engine.Env(nil).StateFile("warnings.json"), stamps: map[string]string{}}
	if k.file == "" {
		return k
	}
	// If the file is damaged, everything is shown once more.
	if data, err := os.ReadFile(k.file); err == nil && (json.Unmarshal(data, &k.stamps) != nil ||
		len(k.stamps) > maxWarnings) {
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

// aFew returns the problems with at most two lines of warnings, counting the one that close writes. Addresses without
// effect come first, then those about no single file. It counts the others, or leaves them to the next run if there is no
// room for their count.
func (k *knownWarnings) aFew(problems []knack.Problem) (left []knack.Problem) {
	warns := func(p knack.Problem) bool { return p.Severity == knack.Warn }
	address := func(p knack.Problem) bool { return p.Code == knack.CodeAddressIgnored }
	problems = slices.Clone(problems)
	order.Stable(problems, func(a, b knack.Problem) int {
		switch {
		case address(a) == address(b):
			return 0
		case address(a):
			return -1
		}
		return 1
	})
	first := func(p knack.Problem) bool { return p.Path == "" || address(p) }
	general, n := 0, 0
	for _, p := range problems {
		if warns(p) && first(p) {
			general++
		} else if warns(p) {
			n++
		}
	}
	rooms := max(0, maxLines-k.printed)
	forGeneral := min(general, rooms)
	rooms -= forGeneral
	n += general - forGeneral
	if n > rooms || n == rooms && k.again > 0 {
		rooms--
	}
	for _, p := range problems {
		if warns(p) {
			room := &rooms
			if first(p) {
				room = &forGeneral
			}
			if *room <= 0 {
				k.hold(p)
				continue
			}
			*room--
			k.printed++
		}
		left = append(left, p)
	}
	return left
}

// hold counts a warning that is not printed, or forgets it if there is no room for the count.
func (k *knownWarnings) hold(p knack.Problem) {
	if k.printed < maxLines {
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
	known := k.seen(p.Code, p.Path, withoutDigits(p.Message))
	k.mu.Lock()
	defer k.mu.Unlock()
	if known {
		k.servers++
		return
	}
	k.newServers = append(k.newServers, p)
}

// withoutDigits is a message without times and process numbers.
func withoutDigits(message string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, message)
}

// ofHook reports whether a note about a hook need not be printed: how a hook fails is said once, and only if there is
// room for it. That of a guard is always said once, because it decides about calls.
func (k *knownWarnings) ofHook(note *session.Note) bool {
	if note.Failed == "" {
		return false
	}
	k.mu.Lock()
	room := k.room() || hook.Event(note.Hook).Guards()
	k.mu.Unlock()
	known := room && k.seen(knack.CodeHookInvalid, "", withoutDigits(note.Failed))
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

// talking returns which problems that were found while a conversation goes on are shown: what was shown before is not.
// Problems of servers are one line if there is no room for two.
func (k *knownWarnings) talking(problems []knack.Problem) (left []knack.Problem) {
	for _, p := range problems {
		switch {
		case p.Severity != knack.Warn:
		case p.Code == knack.CodeMCPServer:
			k.ofServer(p)
			continue
		case p.Code == knack.CodeSandbox && p.Path != "" && k.seen(p.Code, p.Path, p.Message):
			continue
		}
		left = append(left, p)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	room := maxLines - k.printed
	switch found := k.newServers; {
	case len(found) == 0 && k.servers > 0 && room > 0:
		left = append(left, serverProblems(k.servers, " as before"))
		k.printed++
	case len(found) > 0 && len(found) <= room:
		left = append(left, found...)
		k.printed += len(found)
	case len(found) > 0 && room > 0:
		left = append(left, serverProblems(len(found), ""))
		k.printed++
	default:
		k.forget(found)
	}
	k.newServers, k.servers = nil, 0
	k.save()
	return left
}

// forget makes problems of servers new for the next run. k.mu is held.
func (k *knownWarnings) forget(servers []knack.Problem) {
	for _, p := range servers {
		delete(k.stamps, warningKey(p.Code, p.Path, withoutDigits(p.Message)))
	}
}

// save keeps what was printed. k.mu is held.
func (k *knownWarnings) save() {
	if !k.changed {
		return
	}
	if data, err := json.Marshal(k.stamps); err == nil {
		_ = atomicfile.Write(k.file, data, 0o600) // if it fails, they are shown again
	}
	k.changed = false
}

// close writes one line about the warnings that were left out, and keeps those that were printed.
func (k *knownWarnings) close(w io.Writer, p *engine.Project) {
	k.mu.Lock()
	defer k.mu.Unlock()
	newServers := len(k.newServers)
	rest := k.held + k.again + k.trust + k.servers + k.hooks + k.refused // they take a line
	switch {
	case newServers == 0:
	case k.printed == 0 && (newServers == 1 || newServers == maxLines && rest == 0):
		for _, x := range k.newServers {
			printProblem(w, p, x)
			k.printed++
		}
		newServers = 0
	case k.printed == 0:
		printProblem(w, p, serverProblems(newServers, ""))
		newServers = 0
		k.printed++
	case k.printed >= maxLines:
		k.forget(k.newServers)
	}
	k.save()
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
		parts = append(parts, "hooks failed, "+plain.Count(k.hooks, "time")+": knack -p -v names them")
	}
	if k.refused > 0 {
		parts = append(parts, fmt.Sprintf("the sandbox refused something in hooks, %s: knack -p -v names it",
			plain.Count(k.refused, "time")))
	}
	if len(parts) > 0 && k.printed < maxLines { // otherwise the next run says it
		fmt.Fprintln(w, "knack: warn:", strings.Join(parts, "; "))
		k.printed++
	}
	k.held, k.again, k.trust, k.servers, k.hooks, k.refused, k.newServers = 0, 0, 0, 0, 0, 0, nil
}
