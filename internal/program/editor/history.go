package editor

import (
	"encoding/json"
	"os"
	"strings"

	"github.com/knack-agent/knack/internal/leaf/atomicfile"
)

// maxHistory is the maximum number of prompts kept; maxPrompt is the maximum size of each, in
// bytes.
const (
	maxHistory = 1000
	maxPrompt  = 16 << 10
)

// A History contains earlier prompts, oldest first. The zero History is empty.
type History struct {
	all   []string
	at    int    // index of the prompt shown; len(all) means the draft
	draft string // the text typed before Back was first called
}

// Add appends a prompt, unless it is blank or repeats the last one.
func (h *History) Add(s string) {
	s = strings.TrimRight(s, "\n")
	if strings.TrimSpace(s) != "" && len(s) <= maxPrompt && (len(h.all) == 0 || h.all[len(h.all)-1] != s) {
		h.all = append(h.all, s)
		h.all = h.all[max(0, len(h.all)-maxHistory):]
	}
	h.at = len(h.all)
}

// All returns the prompts, oldest first. The caller must not change them.
func (h *History) All() []string { return h.all }

// Back returns the prompt before the one shown. draft is the text in the editor, which Forward
// returns after the last prompt.
func (h *History) Back(draft string) (string, bool) {
	if h.at == 0 {
		return "", false
	}
	if h.at == len(h.all) {
		h.draft = draft
	}
	h.at--
	return h.all[h.at], true
}

// Forward returns the prompt after the one shown.
func (h *History) Forward() (string, bool) {
	if h.at >= len(h.all) {
		return "", false
	}
	h.at++
	if h.at == len(h.all) {
		return h.draft, true
	}
	return h.all[h.at], true
}

// Search returns at most n prompts that contain all words of the query, ignoring letter case:
// the newest first, without duplicates.
func (h *History) Search(query string, n int) []string {
	words := strings.Fields(strings.ToLower(query))
	var found []string
	seen := map[string]bool{}
next:
	for i := len(h.all) - 1; i >= 0 && len(found) < n; i-- {
		lower := strings.ToLower(h.all[i])
		for _, w := range words {
			if !strings.Contains(lower, w) {
				continue next
			}
		}
		if !seen[h.all[i]] {
			seen[h.all[i]] = true
			found = append(found, h.all[i])
		}
	}
	return found
}

// Load reads a history file. A missing file counts as empty. Each line is a JSON string or a
// plain prompt.
func (h *History) Load(path string) {
	data, _ := os.ReadFile(path)
	h.parse(data)
}

func (h *History) parse(data []byte) {
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		var s string
		if strings.HasPrefix(line, `"`) && json.Unmarshal([]byte(line), &s) == nil {
			line = s
		}
		h.Add(line)
	}
}

// Save adds the prompts from index from on to the current content of the file, so that two
// programs running at once do not lose each other's prompts.
func (h *History) Save(path string, from int) error {
	if path == "" || from >= len(h.all) {
		return nil
	}
	return atomicfile.Update(path, 0o600, func(old []byte) ([]byte, error) {
		var merged History
		merged.parse(old)
		for _, s := range h.all[from:] {
			merged.Add(s)
		}
		var b []byte
		for _, s := range merged.all {
			line, err := json.Marshal(s)
			if err != nil {
				return nil, err
			}
			b = append(append(b, line...), '\n')
		}
		return b, nil
	})
}
