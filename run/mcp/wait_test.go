package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestSkillWaits: a call of a skill that is known from an earlier run waits for its server: until it has been tried,
// and no longer than skillWait.
func TestSkillWaits(t *testing.T) {
	for after, want := range map[time.Duration]string{
		time.Second:             "srv is not connected: refused",
		skillWait + time.Second: "the MCP server srv is not connected: it has not answered yet",
	} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			c := New(Options{}, Server{Name: "srv", Open: func(ctx context.Context) (Conn, error) {
				select {
				case <-time.After(after):
					return nil, errors.New("refused")
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}})
			var listed ListedSkill
			if err := json.Unmarshal([]byte(`{"uri": "s://x/SKILL.md", "resources": [{"uri": "s://x/SKILL.md"}]}`), &listed); err != nil {
				t.Fatal(err)
			}
			k := &remoteSkill{p: c.peers[0], listed: listed}
			_, err := k.main(t.Context())
			if err == nil || !strings.Contains(err.Error(), want) || time.Since(began) != min(after, skillWait) {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
			c.Close()
		})
	}
}
