package permission_test

import (
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/permission"
)

// TestWider: what is suggested for longer is what a person means, and never a whole interpreter, shell, program that
// runs others, or program of the network.
func TestWider(t *testing.T) {
	t.Parallel()
	tooWide := func(dir string) bool { return dir == "/home/u" }
	for narrow, want := range map[string]string{
		"Bash(npm run test:unit -- --watch)": "Bash(npm run test:unit:*)",
		"Bash(npm run lint)":                 "Bash(npm run lint:*)",
		"Bash(npm install left-pad)":         "",
		"Bash(npm exec x)":                   "",
		"Bash(go test ./...)":                "Bash(go test:*)",
		"Bash(go run ./x)":                   "",
		"Bash(git commit -m 'a b')":          "Bash(git commit:*)",
		"Bash(git push origin main)":         "",
		"Bash(git reset --hard)":             "",
		"Bash(make test)":                    "Bash(make test:*)",
		"Bash(make -f x)":                    "",
		"Bash(make CC=evil)":                 "",
		"Bash(make 'a b')":                   "",
		"Bash(make)":                         "",
		"Bash(python3 x.py)":                 "",
		"Bash(python3 -m pytest -q)":         "Bash(python3 -m pytest:*)",
		"Bash(node script.js)":               "",
		"Bash(bash -c 'echo hi')":            "",
		"Bash(sudo make test)":               "",
		"Bash(npx prettier --write .)":       "Bash(npx prettier:*)",
		"Bash(npx cowsay)":                   "",
		"Bash(curl http://x)":                "",
		"Bash(ssh host make test)":           "",
		"Bash(docker compose up -d)":         "",
		"Bash(docker run x)":                 "",
		"Bash(rm -rf made)":                  "",
		"Bash(./gradlew test)":               "Bash(./gradlew test:*)",
		"Read(//home/u/other/x.txt)":         "Read(//home/u/other/**)",
		"Edit(//home/u/other/x.txt)":         "Edit(//home/u/other/**)",
		"Read(//home/u/x.txt)":               "", // the home directory
		"Read(//x.txt)":                      "",
		"Edit(/src/a.go)":                    "",
		"Read(//home/u/a*/x.txt)":            "",
		"WebFetch(domain:example.com)":       "",
		"mcp__calc__add":                     "",
	} {
		if want == "" {
			want = narrow
		}
		if got := strings.Join(permission.Wider([]string{narrow}, tooWide), " "); got != want {
			t.Errorf("%s: %s, want %s", narrow, got, want)
		}
	}
	if got := permission.Wider([]string{"Bash(go test ./a)", "Bash(go test ./b)"}, tooWide); len(got) != 1 {
		t.Errorf("two uses of one program: %q", got)
	}
}
