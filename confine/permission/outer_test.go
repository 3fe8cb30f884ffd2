package permission_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// TestOuterFiles: what the words of a command that the user is asked about say that it writes outside the workspace is
// among what is asked about, because the sandbox opens exactly that. ~/docs exists.
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
		d := permission.Rules{}.Decide(t.Context(), permission.Default, p, permission.Subject{Kind: "bash", Text: line})
		var got []string
		for _, s := range d.Subjects {
			name := strings.Replace(filepath.ToSlash(s.Text), filepath.ToSlash(home), "~", 1)
			if s.Kind == permission.KindEdit && s.Verdict == permission.Ask && !strings.HasSuffix(name, "/.git") && !s.Replace &&
				!strings.HasPrefix(s.Reason, "it removes") {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if got = slices.Compact(got); strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", line, strings.Join(got, " "), want)
		}
	}
}
