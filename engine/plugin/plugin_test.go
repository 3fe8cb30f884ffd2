package plugin

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/knack-agent/knack"
)

var update = flag.Bool("update", false, "rewrite the expectations in testdata")

// TestRead reads the trees in testdata. A file links lists symbolic links, entry is the entry of a
// marketplace, and want is what is found.
func TestRead(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no cases")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			o := Options{Name: "folder"}
			var want *txtar.File
			for i, f := range a.Files {
				switch f.Name {
				case "want":
					want = &a.Files[i]
				case "entry":
					o.Entry = f.Data
				case "links":
					for line := range strings.Lines(string(f.Data)) {
						link, target, _ := strings.Cut(strings.TrimSpace(line), " -> ")
						mkdir(t, filepath.Dir(filepath.Join(dir, link)))
						if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
							t.Skip(err)
						}
					}
				default:
					path := filepath.Join(dir, filepath.FromSlash(f.Name))
					mkdir(t, filepath.Dir(path))
					data := bytes.ReplaceAll(f.Data, []byte("<BOM>"), []byte("\ufeff"))
					if err := os.WriteFile(path, data, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			got := ""
			if m, err := ReadMarketplace(FS(root)); m != nil {
				got = showMarketplace(m, m.Problems, err)
			} else {
				p := Read(FS(root), o)
				got = show(p)
				for _, name := range p.Extensions {
					got += Extension(FS(root), name) + "\n"
				}
			}
			if *update {
				if want == nil {
					a.Files = append(a.Files, txtar.File{Name: "want"})
					want = &a.Files[len(a.Files)-1]
				}
				want.Data = []byte(got)
				if err := os.WriteFile(file, txtar.Format(a), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want == nil || got != string(want.Data) {
				t.Errorf("got:\n%s", got)
			}
		})
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

// show writes a plugin, one part per line.
func show(p *Plugin) string {
	var b strings.Builder
	fmt.Fprintf(&b, "plugin %s version=%q manifest=%q\n", p.Name, p.Version, p.Manifest)
	for _, f := range [][2]string{{"description", p.Description}, {"author", p.Author}} {
		if f[1] != "" {
			fmt.Fprintf(&b, "%s %s\n", f[0], f[1])
		}
	}
	place := func(kind string, all []Place) {
		for _, x := range all {
			fmt.Fprintf(&b, "%s %s", kind, x.Path)
			if x.Name != "" {
				fmt.Fprintf(&b, " as %s", x.Name)
			}
			if x.Text != "" {
				fmt.Fprintf(&b, " %q", x.Text)
			}
			b.WriteByte('\n')
		}
	}
	place("skills", p.Skills)
	place("commands", p.Commands)
	for _, x := range p.Prompts {
		fmt.Fprintf(&b, "prompt %s %s\n", x.Name, x.Path)
	}
	for _, a := range p.Agents {
		fmt.Fprintf(&b, "agent %s %s\n", a.Name, a.Path)
	}
	part := func(kind string, all []Part) {
		for _, x := range all {
			var line bytes.Buffer
			if err := json.Compact(&line, x.JSON); err != nil {
				line.WriteString(err.Error())
			}
			fmt.Fprintf(&b, "%s %s %s\n", kind, x.Path, &line)
		}
	}
	part("hooks", p.Hooks)
	part("servers", p.Servers)
	for _, u := range p.Unused {
		fmt.Fprintf(&b, "unused %s\n", u)
	}
	showProblems(&b, p.Problems)
	return b.String()
}

func showProblems(b *strings.Builder, all []knack.Problem) {
	for _, x := range all {
		fmt.Fprintf(b, "%s %s: %s\n", x.Severity, x.Code, x)
	}
}

func showMarketplace(m *Marketplace, problems []knack.Problem, err error) string {
	var b strings.Builder
	if err != nil {
		fmt.Fprintf(&b, "error %v\n", err)
		return b.String()
	}
	fmt.Fprintf(&b, "marketplace %s of %q in %s\n", m.Name, m.Owner, m.File)
	for _, e := range m.Entries {
		src, _ := json.Marshal(e.Source)
		fmt.Fprintf(&b, "%s %s %s\n", e.Name, src, e.Source)
	}
	for _, from := range sorted(m.Renames) {
		e, ok := m.Find(from)
		fmt.Fprintf(&b, "%s is now %q %t\n", from, e.Name, ok)
	}
	showProblems(&b, problems)
	return b.String()
}

// FuzzRead reads any manifest, entry, hooks and servers: it returns, names are valid and paths local.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"name":"demo","skills":["./a"],"hooks":true,"dependencies":{"plugins":["x"]}}`),
		[]byte(`{"strict":false,"commands":"./x"}`), []byte(`{"hooks":{"Stop":[]}}`))
	f.Add([]byte("\ufeff{}"), []byte(`[]`), []byte(`{"mcpServers":{"a":{"command":"x"}}}`))
	f.Add([]byte(`{"name":"../x","skills":"..","commands":{"a":{"source":"/x"}},"agents":["\\x","a\u0000"]}`),
		[]byte(`{}`), []byte(`{"hooks":[]}`))
	f.Fuzz(func(t *testing.T, manifest, entry, part []byte) {
		fsys := fstest.MapFS{
			".claude-plugin/plugin.json": {Data: manifest}, "hooks/hooks.json": {Data: part}, ".mcp.json": {Data: part},
			"skills/a/SKILL.md": {}, "agents/b.md": {}, "x/c.md": {}, ".claude-plugin/marketplace.json": {Data: manifest},
		}
		Validate(fsys)
		p := Read(fsys, Options{Name: "x", Entry: entry})
		if !ValidName(p.Name) {
			t.Errorf("the name %q", p.Name)
		}
		for _, x := range append(p.Skills, p.Commands...) {
			if !filepath.IsLocal(x.Path) {
				t.Errorf("the path %q", x.Path)
			}
		}
		for _, x := range append(p.Hooks, p.Servers...) {
			if !json.Valid(x.JSON) {
				t.Errorf("%s: not JSON: %q", x.Path, x.JSON)
			}
		}
		m, err := ReadMarketplace(fsys)
		if err != nil {
			return
		}
		for _, e := range m.Entries {
			if !ValidName(e.Name) || e.Source.Check() != nil {
				t.Errorf("entry %+v: %v", e, e.Source.Check())
			}
		}
	})
}

// TestLongList: a list with more entries than anybody reads. Found by attack: 200,000 entries took time with their
// square.
func TestLongList(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"name":"long","plugins":[`)
	for i := range 200_000 {
		fmt.Fprintf(&b, `{"name":"p%d","source":"./a"},`, i)
	}
	b.WriteString(`{"name":"p","source":"./a"}]}`)
	m, err := ReadMarketplace(fstest.MapFS{"marketplace.json": {Data: []byte(b.String())}})
	if err != nil || len(m.Entries) != maxEntries || len(m.Problems) != 1 {
		t.Error(len(m.Entries), len(m.Problems), err)
	}
}

// TestClean: any text becomes a valid name.
func TestClean(t *testing.T) {
	for given, want := range map[string]string{"demo": "demo", "my plugin": "my-plugin", "": "plugin", "../x": "x",
		"..": "plugin", "plug-ü": "plug-ü", strings.Repeat("ü", 100): strings.Repeat("ü", 32)} {
		if got := Clean(given); got != want || !ValidName(got) {
			t.Errorf("Clean(%q) = %q, want %q", given, got, want)
		}
	}
}

// TestReadToolsHead checks that a definition far into the head of a program, which engine/part/own finds, is a tool for
// a plugin's page, too.
func TestReadToolsHead(t *testing.T) {
	line := "# " + strings.Repeat("x", 5<<10) + "\n"
	p := Read(fstest.MapFS{
		"tools/far":  {Data: []byte("#!/bin/sh\n" + strings.Repeat(line, 10) + "# knack-tool: reads the mail\n")},
		"tools/none": {Data: []byte("#!/bin/sh\necho\n")},
	}, Options{Name: "demo"})
	if len(p.Tools) != 1 || p.Tools[0].Name != "far" {
		t.Errorf("tools: %v", p.Tools)
	}
}
