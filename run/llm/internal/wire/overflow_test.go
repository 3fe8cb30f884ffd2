package wire

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/knack-agent/knack/run/llm"
)

// TestOverflow: what servers say of a full window is recognised, and near misses are not.
func TestOverflow(t *testing.T) {
	data, err := os.ReadFile("testdata/overflow.txt")
	if err != nil {
		t.Fatal(err)
	}
	yes := 0
	for line := range strings.Lines(string(data)) {
		word := strings.SplitN(strings.TrimSpace(line), " ", 4)
		if word[0] == "#" {
			continue
		}
		status, _ := strconv.Atoi(word[1])
		body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": word[3]}})
		if got := StatusError(ep, status, nil, body).Kind == llm.Overflow; got != (word[0] == "yes") {
			t.Errorf("%d %s: overflow %t", status, word[3], got)
		}
		if word[0] == "yes" {
			yes++
		}
	}
	if yes < 20 {
		t.Errorf("only %d messages", yes)
	}
}
