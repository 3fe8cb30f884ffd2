package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// knownWarnings are the warnings that earlier runs printed. A warning is printed once, and again when its file has
// changed; in each run it would be noise.
type knownWarnings struct {
	file    string            // "": nothing is kept
	stamps  map[string]string // by a hash of the warning: size and modification time of its file
	changed bool
	again   int // warnings that were left out
	trust   int // of these, those that trusting the project resolves
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

// newOnes returns the problems without the warnings that an earlier run printed.
func (k *knownWarnings) newOnes(problems []knack.Problem) (left []knack.Problem) {
	if k.file == "" {
		return problems
	}
	for _, p := range problems {
		if p.Severity == knack.Warn {
			sum := sha256.Sum256([]byte(string(p.Code) + "\x00" + p.Path + "\x00" + p.Message))
			key, stamp := hex.EncodeToString(sum[:12]), ""
			if info, err := os.Stat(p.Path); filepath.IsAbs(p.Path) && err == nil {
				stamp = fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
			}
			if was, ok := k.stamps[key]; ok && was == stamp {
				k.again++
				if p.Code == knack.CodeUntrusted || p.Code == knack.CodeChanged {
					k.trust++
				}
				continue
			}
			k.stamps[key], k.changed = stamp, true
		}
		left = append(left, p)
	}
	return left
}

// close writes one line about the warnings that were left out, and keeps those that were printed.
func (k *knownWarnings) close(w io.Writer) {
	if k.changed {
		if data, err := json.Marshal(k.stamps); err == nil {
			_ = atomicfile.Write(k.file, data, 0o600) // if it fails, they are shown again
		}
	}
	if k.again == 0 {
		return
	}
	text := plain.Count(k.again, "warning") + " as before: knack doctor"
	if k.trust > 0 {
		text += fmt.Sprintf("; %d until you trust this folder: knack trust", k.trust)
	}
	fmt.Fprintln(w, "knack: warn:", text)
}
