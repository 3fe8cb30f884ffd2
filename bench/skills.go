package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Skills writes n skills of 4 KiB below dir in a form that all agents can read: a name, a
// description, a body. Description i starts with the word AAAi and ends with the word ZZZi, so
// that [Seen] can recognize a complete one. It returns the total size of the descriptions in
// bytes.
func Skills(dir string, n int) (described int, err error) {
	middle := strings.Repeat("says what the skill does and when to use it, as people write, ", 3)
	body := strings.Repeat("An instruction of the skill, one of many lines in its body.\n", 60)
	for i := range n {
		name := fmt.Sprintf("skill-%05d", i)
		description := fmt.Sprintf("AAA%05d %sZZZ%05d", i, middle, i)
		text := fmt.Sprintf("---\nname: %s\ndescription: %s\n---\n\n# %s\n\n%s", name, description, name, body)
		if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
			return 0, err
		}
		if err := os.WriteFile(filepath.Join(dir, name, "SKILL.md"), []byte(text), 0o666); err != nil {
			return 0, err
		}
		described += len(description)
	}
	return described, nil
}

// Seen counts how many of the n skills written by [Skills] occur in text: by name, with at
// least the beginning of the description, and with the whole description.
func Seen(text string, n int) (names, begun, whole int) {
	for i := range n {
		if strings.Contains(text, fmt.Sprintf("skill-%05d", i)) {
			names++
		}
		if strings.Contains(text, fmt.Sprintf("AAA%05d", i)) {
			begun++
			if strings.Contains(text, fmt.Sprintf("ZZZ%05d", i)) {
				whole++
			}
		}
	}
	return names, begun, whole
}
