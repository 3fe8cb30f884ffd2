package permission_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// TestOuterFiles: what the words of a command say that it writes outside the workspace is among what is asked about,
// because the sandbox opens exactly that: also where a rule allows the command, which would fail otherwise, but not
// where one allows writing the files. ~/docs exists.
func TestOuterFiles(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home, dir := filepath.Join(top, "home"), filepath.Join(top, "home/work")
	for _, d := range []string{dir, filepath.Join(home, "docs")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	git := permission.NewGitSoon(dir)
	for line, want := range map[string]string{
		"mkdir ~/p":                           "~/p",
		"touch ~/f ../g f":                    "~/f ~/g",
		"cp -r a ~/copy":                      "~/copy",
		"cp a b/c ~/docs":                     "~/docs/a ~/docs/c",
		"mv ~/docs/x ~/y":                     "~/docs/x ~/y",
		"mv ~/docs back":                      "~/docs",
		"mv a ~/docs/":                        "~/docs/a",
		"ln -s a ~/docs/l":                    "~/docs/l",
		"rm -rf ~/docs":                       "~/docs",
		"tar xf a.tgz -C ~/docs":              "~/docs",
		"unzip a.zip -d ~/u":                  "~/u",
		"curl -o ~/o https://e.example":       "~/o",
		"sed -i s/a/b/ ~/s":                   "~/s",
		"echo x | tee ~/t":                    "~/t",
		"chmod +x ~/docs/s":                   "~/docs/s",
		"cd ~/docs && touch x":                "~/docs/x",
		"gcc -Wall -o ~/bin/x a.c":            "~/bin/x",
		"gcc -o x a.c":                        "",
		"clang++ a.cc -o ../b":                "~/b",
		"rustc -o ~/r m.rs":                   "~/r",
		"git init ~/repo":                     "~/repo",
		"git clone https://e.example/x ~/z":   "~/z",
		"git clone https://e.example/x ../zz": "~/zz",
		"git worktree add ~/wt":               "~/wt",
		"git worktree move ~/wt ~/wt2":        "~/wt ~/wt2",
		// never a directory that has the workspace or the home directory in it
		"cp *.txt ~":     "",
		"cp a ~":         "~/a",
		"tar xf a -C ~":  "",
		"tar xf a -C /":  "",
		"git init ~":     "",
		"cp a /dev/null": "",
		"mkdir inside":   "",
	} {
		p := permission.PathContext{Dir: dir, Home: home, GitEnv: true, Git: git,
			Confined: func() bool { return true }}
		asked := func(allow ...string) string {
			var rules permission.Rules
			for _, text := range allow {
				rules.Allow = append(rules.Allow, rulesOf(t, text, permission.User)...)
			}
			d := rules.Decide(t.Context(), permission.Default, p, permission.Subject{Kind: "bash", Text: line})
			var got []string
			for _, s := range d.Subjects {
				name := strings.Replace(filepath.ToSlash(s.Text), filepath.ToSlash(home), "~", 1)
				if s.Kind == permission.KindEdit && s.Verdict == permission.Ask && !strings.HasSuffix(name, "/.git") && !s.Replace &&
					!strings.HasPrefix(s.Reason, "it removes") {
					got = append(got, name)
				}
			}
			slices.Sort(got)
			return strings.Join(slices.Compact(got), " ")
		}
		if got := asked(); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
		if got := asked("Bash"); got != want {
			t.Errorf("%s, which a rule allows: %q, want %q", line, got, want)
		}
		if got := asked("Bash", "Edit(~/**)"); got != "" {
			t.Errorf("%s, which rules allow: %q", line, got)
		}
	}
}

// TestOuterPush: a push to a repository of this machine asks for what it fills, and not for hooks or configuration.
func TestOuterPush(t *testing.T) {
	g := newGitGround(t)
	bare := filepath.Join(g.top, "bare.git")
	g.git("repo", "init", "--quiet", "--bare", bare)
	g.git("repo", "remote", "add", "origin", bare)
	g.git("repo", "remote", "add", "far", "https://e.example/x.git")
	g.git("repo", "remote", "add", "hosted", "me@e.example:x.git")
	g.git("repo", "remote", "add", "url", "file://"+bare)
	spaced := filepath.Join(g.top, "our shared.git")
	g.git("repo", "init", "--quiet", "--bare", spaced)
	g.git("repo", "remote", "add", "spaced", spaced)
	both := bare + "/objects " + bare + "/refs"
	for line, want := range map[string]string{
		"git push":                       "", // to the branch that HEAD names
		"git push origin main":           "",
		"git push origin x:main":         "",
		"git push origin HEAD:x":         both,
		"git push -u url HEAD:x":         both,
		"git push ../bare.git x":         both,
		"git push ../bare HEAD:refs/y":   both,
		"git push spaced HEAD:x":         spaced + "/objects " + spaced + "/refs",
		"git push far HEAD":              "",
		"git push hosted HEAD":           "",
		"git push " + g.top + "/no HEAD": "",
	} {
		p := permission.PathContext{Dir: filepath.Join(g.top, "repo"), GitEnv: true,
			Git: permission.NewGitSoon(filepath.Join(g.top, "repo")), Confined: func() bool { return true }}
		var rules permission.Rules
		d := rules.Decide(t.Context(), permission.Default, p, permission.Subject{Kind: "bash", Text: line})
		var got []string
		for _, s := range d.Subjects {
			if s.Kind == permission.KindEdit && s.Verdict == permission.Ask {
				got = append(got, s.Text)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestOuterRedirections: where a redirection after cd leads is named, and no other directory.
func TestOuterRedirections(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, other, cache := filepath.Join(top, "work"), filepath.Join(top, "other"), filepath.Join(top, "cache")
	for _, d := range []string{dir, other, cache} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]string{
		"echo x > ../other/f":               "other/f",
		"cd ../other && echo x > f":         "other/f",
		"cd ../other && cd . && touch f":    "other/f",
		"cd ../other; echo x > f":           "other/f work/f",
		"cd ../other && ls; echo x > f":     "other/f work/f",
		"cd ../other || echo x > f":         "other/f work/f",
		"(cd ../other && echo y) && >f":     "other/f work/f",
		"cd ../cache && echo x > f":         "",
		"cd ../other && { echo x > f; }":    "other/f",
		"cd ../other && touch a || touch b": "other/a other/b work/b",
		"cd ../other && touch a && touch b": "other/a other/b",
		"! cd ../other && touch a":          "other/a work/a",
		"cd ../other & touch a":             "other/a work/a",
		"cd x && cd ../../other && touch a": "other/a work/x/a",
		"true && cd ../other && touch a":    "other/a work/a",
		"cd() { :; }; cd ../other && >a":    "other/a work/a",
		"if cd ../other; then echo x>f; fi": "other/f work/f",
	} {
		p := permission.PathContext{Dir: dir, Home: top, Confined: func() bool { return true },
			Open: func(path string) bool { return strings.HasPrefix(filepath.ToSlash(path), filepath.ToSlash(cache)) }}
		allow := permission.Rules{Allow: rulesOf(t, "Bash", permission.User)}
		var got []string
		d := allow.Decide(t.Context(), permission.Default, p, permission.Subject{Kind: "bash", Text: line, Tool: "bash",
			Aliases: &[]string{"Bash"}})
		for _, s := range d.Subjects {
			name, _ := filepath.Rel(top, s.Text)
			if s.Kind == permission.KindEdit && (s.Verdict == permission.Ask || strings.HasPrefix(name, "work")) {
				got = append(got, filepath.ToSlash(name))
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
