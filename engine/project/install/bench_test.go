package install

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/knack-agent/knack/engine/plugin"
)

// BenchmarkVerifyAtLoad is what verifying adds to reading 100 plugins of ten skills each: the difference of both.
func BenchmarkVerifyAtLoad(b *testing.B) {
	s := store(b)
	var items []*Item
	texts := map[string][]byte{}
	for i := range 100 {
		files := map[string]string{".claude-plugin/plugin.json": fmt.Sprintf(`{"name":"p%d"}`, i)}
		for j := range 10 {
			files[fmt.Sprintf("skills/s%d/SKILL.md", j)] = fmt.Sprint(skill, i, strings.Repeat("Text of the skill. ", 100))
		}
		it := add(b, s, local(write(b, b.TempDir(), files)), fmt.Sprintf("p%d@m", i))
		for name := range it.Files {
			path := filepath.Join(s.Path(it), name)
			data, err := os.ReadFile(path)
			if err != nil {
				b.Fatal(err)
			}
			texts[path] = data
		}
		items = append(items, it)
	}
	for _, verified := range []bool{false, true} {
		b.Run(map[bool]string{false: "read", true: "verified"}[verified], func(b *testing.B) {
			least := time.Hour // the machine may be busy
			for b.Loop() {
				start := time.Now()
				for _, it := range items {
					dir := s.Path(it)
					root, err := os.OpenRoot(dir)
					if err != nil {
						b.Fatal(err)
					}
					if !verified {
						plugin.Read(plugin.FS(root), plugin.Options{})
						root.Close()
						continue
					}
					r := it.NewReader(root, dir)
					plugin.Read(r, plugin.Options{})
					for name := range it.Files {
						path := filepath.Join(dir, name)
						if err := r.Check(path, texts[path], false); err != nil {
							b.Fatal(err)
						}
					}
					root.Close()
				}
				least = min(least, time.Since(start))
			}
			b.ReportMetric(float64(least.Microseconds())/1000, "least-ms")
		})
	}
}
