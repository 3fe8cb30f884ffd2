package plugin

import (
	"encoding/json"
	"path/filepath"
	"testing"
)

// TestFileSource: a marketplace in settings may be named by its file, as in Claude Code.
func TestFileSource(t *testing.T) {
	t.Parallel()
	s, err := ParseSource(json.RawMessage(`{"source": "file", "path": "m/.claude-plugin/marketplace.json"}`))
	if err != nil || s.Kind != Path || filepath.ToSlash(s.Path) != "m" {
		t.Errorf("%+v %v", s, err)
	}
}
