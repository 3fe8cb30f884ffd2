package needs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack"
)

// skill writes a skill and reads it.
func skill(t *testing.T, files map[string]string) *knack.Skill {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "x")
	for name, text := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	k, problems := knack.Check(t.Context(), dir)
	if k == nil {
		t.Fatal(problems)
	}
	return k
}

const head = "---\nname: x\ndescription: Does x.\n"

// TestOf: what a skill needs is read from its metadata, its text and its files.
func TestOf(t *testing.T) {
	k := skill(t, map[string]string{
		"SKILL.md": head + "compatibility: Requires Python 3.11+ and the gh CLI\nmetadata:\n  knack:\n    needs:\n" +
			"      programs: [ffmpeg>=6, own-tool]\n      python: ['pypdf>=3']\n---\n" +
			"Run:\n\n1. first\n\n   ```bash\n   $ sudo pandoc a.md | jq .\n   if true; then unknown-tool; fi\n   ```\n\n" +
			"```python\nimport nothing\n```\n",
		"scripts/a.py":      "#!/usr/bin/env python3\nimport os, helper\nimport yaml\nfrom PIL import Image\n\ntry:\n    import fitz\nexcept ImportError:\n    pass\n",
		"scripts/helper.py": "",
		"scripts/b.py":      "# /// script\n# dependencies = [\"rich\"]\n# ///\nimport rich\n",
		"scripts/c.sh":      "#!/bin/sh\nset -e\nqpdf --version\n",
		"package.json":      `{"dependencies": {"sharp": "1", "@scope/pack": "2", "; rm -rf": "3"}}`,
	})
	all, err := Of(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range all {
		got = append(got, string(n.Kind)+" "+n.Name+n.Min)
	}
	want := []string{"program ffmpeg6", "program own-tool", "python pypdf3", "program python33.11", "program gh",
		"program pandoc", "program jq", "program npm", "npm @scope/pack", "npm sharp", "python os", "python yaml",
		"python PIL", "program uv", "program qpdf"}
	if !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
}

// TestNamed: a command of the text that is not in the table is a program if something else says so.
func TestNamed(t *testing.T) {
	k := skill(t, map[string]string{"SKILL.md": head + "allowed-tools: Bash(granted *), Bash(other)\n---\n" +
		"```bash\nnpm install -g @scope/installed-cli@latest\n" +
		"pip install git+https://example.com/a/fetched.git pinned==1\nnpm install -g \"$(x)\"\ninstalled go\nfetched x\npinned\ngranted a\nother b\nx run\nmoo\n```\n"})
	var got []string
	all, _ := Of(t.Context(), k)
	for _, n := range all {
		got = append(got, n.Name)
	}
	if want := []string{"npm", "python3", "installed", "fetched", "pinned", "granted"}; !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
	want := []string{"npm install -g @scope/installed-cli@latest",
		"pip install git+https://example.com/a/fetched.git pinned==1"}
	if says := Says(t.Context(), k); !slices.Equal(says, want) {
		t.Errorf("\n got %q\nwant %q", says, want)
	}
}

// TestMissing: what is not here is told in one line, with commands in which nothing of the skill is more than a name.
func TestMissing(t *testing.T) {
	k := skill(t, map[string]string{"SKILL.md": head + "---\nX.\n", "node_modules/sharp/package.json": "{}"})
	all := []Need{{Kind: Program, Name: "no-such-program"}, {Kind: Skill, Name: "other"}, {Kind: Skill, Name: "x"},
		{Kind: NPM, Name: "sharp", From: "package.json"}, {Kind: NPM, Name: "left", From: "package.json"},
		{Kind: Platform, Name: "plan9"}, {Kind: Server, Name: "s"}}
	missing := Missing(t.Context(), k, all, func(name string) bool { return name == "x" })
	want := "x needs no-such-program, the skill other, left (npm), the platform plan9, which are not here: " +
		"npm install left; knack skill find other"
	if got := Line("x", missing); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if got := Line("x", nil); got != "" {
		t.Error(got)
	}
}

// TestDeclared: a list that is wrong is an error, and no name has a character that a shell reads.
func TestDeclared(t *testing.T) {
	for _, needs := range []string{`["$(x)"]`, `["a b"]`, `["a;b"]`, `["a>=x"]`, `{"programms": []}`, `"a"`, `["-rf"]`} {
		k := skill(t, map[string]string{"SKILL.md": head + "metadata:\n  knack:\n    needs: " + needs + "\n---\nX.\n"})
		if all, err := Of(t.Context(), k); err == nil || len(all) > 0 {
			t.Errorf("%s: %v, %v", needs, all, err)
		}
	}
}

// TestPrograms: each line of the table is whole.
func TestPrograms(t *testing.T) {
	lines := 0
	for line := range strings.Lines(programsText) {
		if !strings.HasPrefix(line, "#") {
			lines++
		}
	}
	if got := len(programs()); got != lines {
		t.Errorf("%d of %d lines can be used", got, lines)
	}
	for module, pip := range modules() {
		if pip == "" || strings.Contains(pip, " ") {
			t.Errorf("%s: %q", module, pip)
		}
	}
}

func TestAtLeast(t *testing.T) {
	for _, x := range []struct {
		have, want string
		ok         bool
	}{{"3.11.2", "3.9", true}, {"3.9", "3.11", false}, {"18", "18.0", true}, {"", "9", true}, {"20.1", "18", true}} {
		if got := atLeast(x.have, x.want); got != x.ok {
			t.Errorf("%s >= %s: %t", x.have, x.want, got)
		}
	}
}
