package mcp

import (
	"strings"
	"testing"
)

// TestWriteHint: what the sandbox refused is said with the path and the setting.
func TestWriteHint(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"EROFS: read-only file system, open '/home/u/memory.jsonl'":     "write /home/u/memory.jsonl;",
		"[Errno 30] Read-only file system: \"/var/x\"":                  "write /var/x;",
		"mkdir: Read-only file system":                                  "write a path;",
		"ENOENT: no such file or directory, mkdir '/home/u/.cache/x/a'": "write /home/u/.cache/x/a;",
		"ENOENT: no such file or directory, open '/x'":                  "",
		"ENOENT: no such file, open '/x'":                               "",
	} {
		if got := writeHint(text); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q", text, got)
		}
	}
}
