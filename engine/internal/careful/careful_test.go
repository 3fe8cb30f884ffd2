package careful

import (
	"os"
	"path/filepath"
	"testing"
)

func TestLook(t *testing.T) {
	root := t.TempDir()
	if real, err := filepath.EvalSymlinks(root); err == nil {
		root = real
	}
	if err := os.Mkdir(filepath.Join(root, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(root), filepath.Join(root, "up")); err != nil {
		t.Skip(err)
	}
	for line, asks := range map[string]bool{
		"ls": false, "rm x": false, "rm -rf sub/x " + root + "/y": false, "rm -rf ./sub && echo rm": false,
		"rm -rf /etc/x": true, "rm ../x": true, "rm -rf ~/x": true, `rm "$X"`: true, "rm -rf .": true, "rm up/x": true,
		"rm up": false, "cd sub && rm x": false, "cd .. && rm x": true, `cd "$X"; rm x`: true, "cd / && ls": false,
		"sudo -n rm /x": true, "env A=1 rm /x": true, "echo x | xargs rm": true, "echo x | xargs -n 1 ls": false,
		"bash -c 'rm /x'": true, "bash -c 'rm x'": false, "find . -name x -delete": false, "find / -name x -delete": true,
		"find -delete": true, "find / -name x": false, "timeout 5s rm /x": true,
		"bash -lc 'rm /x'": true, "sh -ec 'git push -f'": true, "bash -o pipefail -c 'rm /x'": true, "bash -lc 'ls /x'": false,
		"ls | xargs -I {} rm {}": true, "sudo -u root rm /x": true, "timeout -s KILL 5 rm /x": true, "eval 'rm /x'": true,
		"xargs -a list -I% ls": false, "env -u A -C / rm x": true, "command -v rm": false, "git push --force=x": true,
		"git push": false, "git push origin main": false, "git push -f": true, "git push --force-with-lease": true,
		"git -C sub push origin +main": true, "git push origin :main": true, "git push origin --delete main": true,
		"git push -u origin main": false, "git push --mirror": true, `git push "$X"`: true, "git status": false,
		"if rm": true, "(rm /x)": true, "$(rm /x)": true,
	} {
		if got := Look(line, root, root); (got != "") != asks {
			t.Errorf("%s: %q", line, got)
		}
	}
}
