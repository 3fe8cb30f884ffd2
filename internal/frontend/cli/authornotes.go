package cli

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/atomicfile"
)

// authorCodes are the codes of warnings that only the author of a skill can act on; the skill
// loads and works anyway.
var authorCodes = map[knack.Code]bool{
	knack.CodeNameInvalid: true, knack.CodeNameTooLong: true, knack.CodeNameDirMismatch: true, knack.CodeNameMissing: true,
	knack.CodeDescriptionMissing: true, knack.CodeDescriptionTooLong: true, knack.CodeCompatibilityInvalid: true,
	knack.CodeCompatibilityTooLong: true,
	knack.CodeFieldType:            true, knack.CodeUnknownKey: true, knack.CodeDuplicateKey: true,
	knack.CodeYAMLRepaired:        true,
	knack.CodeFrontmatterMissing:  true,
	knack.CodeFrontmatterUnclosed: true, "encoding": true,
}

// firstOccurrences removes the warnings for authors that an earlier run already printed for an unchanged
// file, and records the others as printed. Repeating them in each run would be noise; knack
// skill list --all always shows them.
func firstOccurrences(problems []knack.Problem) []knack.Problem {
	file := engine.Env(nil).StateFile("author-notes.json")
	if file == "" {
		return problems
	}
	seen := map[string]string{} // by path: size and modification time of the file
	if data, err := os.ReadFile(file); err == nil && json.Unmarshal(data, &seen) != nil {
		seen = map[string]string{} // damaged: show everything once more
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
			_ = atomicfile.Write(file, data, 0o600) // if it fails, they are shown again
		}
	}
	return left
}
