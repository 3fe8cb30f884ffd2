//go:build linux && amd64

package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/workspace"
)

// TestGrants: commands that make, remove and move what an allowance opens outside the workspace end as in a shell: they
// print the same and leave the same files. ~/a and ~/deep/er/b are open, ~/there exists and is, too.
func TestGrants(t *testing.T) {
	for name, line := range map[string]string{
		"mkdir":          "mkdir ~/a && echo x > ~/a/f && cat ~/a/f",
		"not there":      "ls ~/a; test -e ~/a || echo no; echo x > ~/a/f; rmdir ~/a; rm ~/a; echo $?",
		"mkdir twice":    "mkdir ~/a; mkdir ~/a; mkdir -p ~/a/b/c && find ~/a",
		"mode":           "umask 027; mkdir -m 1700 ~/a; touch ~/a/f; stat -c '%A %n' ~/a ~/a/f",
		"file":           "umask 077; echo x > ~/a && cat ~/a && stat -c %A ~/a && echo y >> ~/a && cat ~/a",
		"noclobber":      "set -C; echo x > ~/a && echo y > ~/a; cat ~/a",
		"exclusive":      "python3 -c 'import os; f = os.open(os.path.expanduser(\"~/a\"), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o400); os.write(f, b\"x\"); os.lseek(f, 0, 0); print(os.read(f, 9))' && cat ~/a",
		"copy":           "cp -r .claude ~/a && ls -A ~/a && cp -r .claude ~/a && ls -A ~/a ~/a/.claude",
		"copy a file":    "cp main.txt ~/a && cp -n .mcp.json ~/a; cat ~/a",
		"link":           "ln -s nowhere ~/a && readlink ~/a && rm ~/a && mkdir ~/a && echo made",
		"anew":           "mkdir ~/a && rmdir ~/a && echo x > ~/a && rm ~/a && mkdir -p ~/a/b && rm -r ~/a && ls -d ~/a",
		"below":          "mkdir ~/deep && mkdir ~/deep/er && mkdir ~/deep/er/b && touch ~/deep/er/b/f && find ~/deep",
		"below, removed": "cd ~ && mkdir -p deep/er/b && rmdir -p deep/er/b; ls deep",
		"there":          "rm -rf ~/there && ls ~/there; mkdir ~/there && echo new > ~/there/f && cat ~/there/f",
		"there, moved":   "mv ~/there ~/a && cat ~/a/old && ls ~/there; mkdir ~/there && ls -A ~/there",
		"moved here":     "mv ~/there here && cat here/old && ls ~/there",
		"moved out":      "mkdir d && echo x > d/f && mv d ~/a && cat ~/a/f && echo y > ~/a/g && ls ~/a && ls d",
		"file moved out": "mv main.txt ~/a && cat ~/a && ls main.txt",
		"relative":       "cd ~ && mkdir a && cd a && mkdir -p x/y && cd x && echo z > ../../a/x/y/f && cat y/f",
		"descriptor":     "exec 3< ~ && python3 -c 'import os; os.mkdir(\"a\", dir_fd=3); os.mkdir(\"a/b\", dir_fd=3); print(os.listdir(os.path.expanduser(\"~/a\")))'",
		"through a link": "ln -s ~ home && mkdir home/a && echo x > home/a/f && cat ~/a/f && rm home",
		"sed":            "sed -i s/old/new/ ~/there/old && cat ~/there/old; sed -i s/read/writ/ ~/other/file ~/there/old; cat ~/other/file; ls ~/other",
		"many":           "mkdir ~/a && for i in $(seq 40); do (echo $i > ~/a/$i) & done; wait; ls ~/a | wc -l",
	} {
		t.Run(name, func(t *testing.T) {
			if strings.Contains(line, "python3") {
				if _, err := exec.LookPath("python3"); err != nil {
					t.Skip(err)
				}
			}
			results := [2]string{}
			for i := range results {
				b := newFixture(t).complete()
				for _, dir := range []string{"there", "other"} {
					if err := os.MkdirAll(b.at(dir), 0o755); err != nil {
						t.Fatal(err)
					}
				}
				b.write("there/old", "old\n")
				var out string
				if i == 0 {
					cmd := exec.Command("/bin/bash", "-c", line)
					cmd.Dir = b.dir
					text, _ := cmd.CombinedOutput()
					out = string(text)
				} else {
					out, _ = b.allowed(line, workspace.Allowance{Write: []string{b.at("a"), b.at("deep/er/b"), b.at("there"),
						b.at("other/file")}})
				}
				list, err := exec.Command("find", b.home, "-not", "-path", "*/.git*", "-not", "-path", "*/.local*", "-printf",
					"%P %y %m %l\n").Output()
				if err != nil {
					t.Fatal(err)
				}
				sorted := strings.Split(strings.ReplaceAll(string(list), b.home, "~"), "\n")
				results[i] = strings.ReplaceAll(out, b.home, "~") + "\n" + strings.Join(slices.Sorted(slices.Values(sorted)), "\n")
			}
			if results[0] != results[1] {
				t.Errorf("in a shell:\n%s\nhere:\n%s", results[0], results[1])
			}
		})
	}
}

// TestGrantsOpenNothingElse: other names in the same directory stay closed and leave nothing, and what is hidden or
// protected in the workspace is not found at another place.
func TestGrantsOpenNothingElse(t *testing.T) {
	b := newFixture(t).complete()
	open := workspace.Allowance{Write: []string{b.at("a"), b.at("other/file")}}
	before := b.contents()
	for _, line := range []string{
		"mkdir ~/b", "echo x > ~/b", "ln -s / ~/b", "mkdir -p ~/other/b", "echo x > ~/other/sedABCDEF",
		"echo x > ~/other/file.bak",
		"python3 -c 'import os; os.open(os.path.expanduser(\"~/other/sedABCDEF\"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)'",
		"python3 -c 'import os; os.open(os.path.expanduser(\"~/sedABCDEF\"), os.O_CREAT | os.O_EXCL | os.O_WRONLY)'",
		"mv ~/other ~/a", "mv ~/.ssh ~/a; cat ~/a/id_ed25519", "ln ~/.netrc ~/a; cat ~/a",
		"ln -s ~/other l; mkdir l/b; rm l", "mv .env ~/a; cat ~/a", "mv sub ~/a; cat ~/a/.env.local; rm -rf ~/a",
		"mv .git/hooks ~/a; rm -rf ~/a", "mv .claude ~/a; rm -rf ~/a", "rm -rf ~/a/../other",
	} {
		out, _ := b.allowed("("+line+") 2>/dev/null; rm -rf ~/a", open)
		if strings.Contains(out, "SECRET") {
			t.Errorf("%s printed a secret", line)
		}
		if after := b.contents(); after != before {
			t.Fatalf("%s: %s\nbefore %s", line, after, before)
		}
	}
}

// TestGrantsAmongSecrets: a new file in a directory of secrets can be made if it is open.
func TestGrantsAmongSecrets(t *testing.T) {
	b := newFixture(t).complete()
	out, exit := b.allowed("echo new > ~/.ssh/new && cat ~/.ssh/new; cat ~/.ssh/id_ed25519",
		workspace.Allowance{Write: []string{b.at(".ssh/new")}})
	if !strings.HasPrefix(out, "new\n") || strings.Contains(out, "SECRET") || b.read(".ssh/new") != "new\n" {
		t.Errorf("%q %q", out, exit.Refused)
	}
}

// TestGrantsDenied: what a rule denies is not moved to where it does not deny it.
func TestGrantsDenied(t *testing.T) {
	b := newFixture(t).complete()
	b.write("project/fixed/a", "kept")
	allow := b.denied("Edit(fixed/a)")
	allow.Write = []string{b.at("a")}
	b.allowed("mv fixed ~/a; echo changed > ~/a/a", allow)
	if b.read("project/fixed/a") != "kept" {
		t.Errorf("%q, %q", b.read("project/fixed/a"), b.read("a/a"))
	}
}

// TestRefusedAbove: a message about a file in a directory that is missing leads to the rule for the directory.
func TestRefusedAbove(t *testing.T) {
	b := newFixture(t).complete()
	_, exit := b.run("echo \"fatal: could not create leading directories of '../wt/sub/.git': Read-only file system\"; false")
	if want := "Edit(/" + b.at("wt") + ")"; len(exit.Refused) != 1 || !strings.HasSuffix(exit.Refused[0], want) {
		t.Errorf("%q, want %s", exit.Refused, want)
	}
}

// TestGrantsRace: a command that puts what is hidden into a directory while that is moved out does not read it.
func TestGrantsRace(t *testing.T) {
	b := newFixture(t).complete()
	line := `mkdir d; (for i in $(seq 200); do mv sub d/sub 2>/dev/null; mv d/sub sub 2>/dev/null; done) &
for i in $(seq 60); do python3 -c 'import os; h = os.path.expanduser("~"); os.rename("d", h + "/a")' 2>/dev/null &&
{ cat ~/a/sub/.env.local ~/a/.env.local; mv ~/a d; }; done 2>/dev/null; wait`
	if out, _ := b.allowed(line, workspace.Allowance{Write: []string{b.at("a")}}); strings.Contains(out, "SECRET") {
		t.Error(out)
	}
	if data, _ := os.ReadFile(filepath.Join(b.dir, "sub/.env.local")); string(data) != "SECRET" {
		found, _ := exec.Command("grep", "-rl", "SECRET", b.home).Output()
		t.Logf("now at %s", found)
	}
}
