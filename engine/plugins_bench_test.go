package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/engine/project/install"
)

// BenchmarkLoadPlugins is what a start does with 100 installed plugins of ten skills each, and without.
func BenchmarkLoadPlugins(b *testing.B) {
	home := b.TempDir()
	for name, value := range map[string]string{"HOME": home, "XDG_CONFIG_HOME": home + "/config",
		"XDG_DATA_HOME":  home + "/data",
		"XDG_STATE_HOME": home + "/state", "XDG_CACHE_HOME": home + "/cache"} {
		b.Setenv(name, value)
	}
	project := filepath.Join(home, "project")
	if err := os.MkdirAll(filepath.Join(project, ".git"), 0o700); err != nil {
		b.Fatal(err)
	}
	b.Chdir(project)
	once := func(b *testing.B) {
		p, err := engine.Load(context.Background(), engine.Options{})
		if err != nil {
			b.Fatal(err)
		}
		knack.Load(context.Background(), p.Sources()...)
		p.Close()
	}
	load := func(b *testing.B) {
		least := time.Hour // the machine may be busy
		for b.Loop() {
			start := time.Now()
			once(b)
			least = min(least, time.Since(start))
		}
		b.ReportMetric(float64(least.Microseconds())/1000, "least-ms")
	}
	b.Run("0", load)
	s := install.User(filepath.Join(home, "data", "knack"), filepath.Join(home, "config", "knack"))
	on := map[string]bool{}
	for i := range 100 {
		dir := b.TempDir()
		name := fmt.Sprint("p", i)
		files := map[string]string{".claude-plugin/plugin.json": `{"name":"` + name + `"}`}
		for j := range 10 {
			files[fmt.Sprintf("skills/s%d-%d/SKILL.md", i, j)] = "---\ndescription: Does something. Use when asked.\n---\n" +
				strings.Repeat("Text of the skill. ", 100)
		}
		for file, text := range files {
			file = filepath.Join(dir, file)
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				b.Fatal(err)
			}
		}
		st, err := s.Stage(b.Context(), install.Given{Source: plugin.Source{Kind: plugin.Path, Path: dir}, Typed: true}, name, nil)
		if err == nil {
			err = s.Install(st, name+"@m")
			st.Close()
		}
		if err != nil {
			b.Fatal(err)
		}
		on[name+"@m"] = true
	}
	data, err := json.Marshal(map[string]any{"enabledPlugins": on})
	if err == nil {
		err = os.WriteFile(filepath.Join(home, "config", "knack", "settings.json"), data, 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Run("100", load)
}
