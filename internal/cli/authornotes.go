package cli

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/atomicfile"
)

// authorCodes are the codes of warnings that only the author of a skill can act
// on: the skill loads and works all the same.
var authorCodes = map[knack.Code]bool{
	knack.CodeNameInvalid: true, knack.CodeNameTooLong: true, knack.CodeNameDirMismatch: true, knack.CodeNameMissing: true,
	knack.CodeDescriptionMissing: true, knack.CodeDescriptionTooLong: true, knack.CodeCompatibilityInvalid: true,
	knack.CodeCompatibilityTooLong: true,
	knack.CodeFieldType:            true, knack.CodeUnknownKey: true, knack.CodeDuplicateKey: true, knack.CodeYAMLRepaired: true,
	knack.CodeFrontmatterMissing:  true,
	knack.CodeFrontmatterUnclosed: true, "encoding": true,
}

// unseen leaves out the warnings for authors that an earlier run printed for the
// file as it is now, and remembers those that are left. A run is no place to
// repeat them; knack skill list --all shows them at any time.
func unseen(problems []knack.Problem) []knack.Problem {
	file := engine.Env(nil).StateFile("author-notes.json")
	if file == "" {
		return problems
	}
	seen := map[string]string{} // by path, what the file was like
	if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &seen) != nil {
		seen = map[string]string{} // damaged: everything is shown once more
	}
	now := map[string]string{}
	var left []knack.Problem
	for _, p := range problems {
		if p.Severity == knack.Warn && authorCodes[p.Code] {
			if info, err := os.Stat(p.Path); err == nil {
				stamp := fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano())
				if seen[p.Path] == stamp {
					continue
				}
				now[p.Path] = stamp
			}
		}
		left = append(left, p)
	}
	if len(now) > 0 {
		for path, stamp := range now {
			seen[path] = stamp
		}
		if data, err := json.Marshal(seen); err == nil {
			_ = atomicfile.Write(file, data, 0o600) // otherwise they are shown again
		}
	}
	return left
}
