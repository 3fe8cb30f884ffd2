package secrets

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/workspace"
)

// TestRuns: only a command whose one program is a file of the folder gets its secrets.
func TestRuns(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("paths of a shell")
	}
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	skill, ws := filepath.Join(home, "skills", "x"), filepath.Join(home, "ws")
	for _, file := range []string{skill + "/scripts/a.sh", skill + "/b.py", skill + "/SKILL.md", ws + "/a.sh",
		skill + "2/a.sh", ws + "/scripts/a.sh"} {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{ws + "/link": skill, skill + "/out.sh": ws + "/a.sh", home + "/alias": skill} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	runs := func(c workspace.Command) (string, bool) {
		c.Dir = ws
		return Runs(c, []string{skill}, home)
	}
	for _, line := range []string{
		"S/scripts/a.sh", "S/scripts/a.sh one 'two $X' \"three\" *.csv", "bash S/scripts/a.sh", "sh -e S/scripts/a.sh -x",
		"python3 S/b.py", "python3.12 -u S/b.py --flag", "S/scripts/a.sh > out.txt 2>&1 < in.txt",
		"cd S && ./scripts/a.sh", "cd S && cd ./scripts && ./a.sh", "cd S && python3 b.py", "~/skills/x/scripts/a.sh",
		"cd S && bash scripts/a.sh 2>/dev/null", "S/scripts/a.sh \"$KNOWN\"", "\"$DIR\"/scripts/a.sh",
	} {
		c := workspace.Command{Line: strings.ReplaceAll(line, "S/", skill+"/"), Env: []string{"KNOWN=x", "DIR=" + skill}}
		c.Line = strings.ReplaceAll(c.Line, "cd S ", "cd "+skill+" ")
		if file, _ := runs(c); !strings.HasPrefix(file, skill) {
			t.Errorf("%s: %q", line, file)
		}
	}
	for _, line := range []string{
		// Another program beside it, or before, or after.
		"S/scripts/a.sh | cat", "S/scripts/a.sh && env", "env; S/scripts/a.sh", "S/scripts/a.sh; env", "S/scripts/a.sh &",
		"env | S/scripts/a.sh", "(S/scripts/a.sh)", "{ S/scripts/a.sh; }", "if S/scripts/a.sh; then :; fi",
		"S/scripts/a.sh || env", "! S/scripts/a.sh", "time S/scripts/a.sh", "env S/scripts/a.sh", "timeout 9 S/scripts/a.sh",
		"exec S/scripts/a.sh", "command S/scripts/a.sh", "xargs S/scripts/a.sh", "nohup S/scripts/a.sh",
		"coproc S/scripts/a.sh",
		"f() { env; }; S/scripts/a.sh", "trap env EXIT && S/scripts/a.sh", "S/scripts/a.sh\nenv",
		// What comes into its words or its input.
		"S/scripts/a.sh $TOKEN", "S/scripts/a.sh \"${TOKEN}\"", "S/scripts/a.sh $(env)", "S/scripts/a.sh `env`",
		"S/scripts/a.sh <(env)", "S/scripts/a.sh >(cat)", "S/scripts/a.sh > $TOKEN", "S/scripts/a.sh <<X\n$TOKEN\nX",
		"S/scripts/a.sh <<< $TOKEN", "S/scripts/a.sh $((TOKEN))", "S/scripts/a.sh {fd}> x$TOKEN",
		// What changes what runs.
		"LD_PRELOAD=x S/scripts/a.sh", "PATH=. bash S/scripts/a.sh", "export X=1 && S/scripts/a.sh", "X=1 && S/scripts/a.sh",
		"bash -c S/scripts/a.sh", "bash -c env S/scripts/a.sh", "bash --rcfile x S/scripts/a.sh", "bash -i S/scripts/a.sh",
		"python3 -c 'import os' S/b.py", "python3 -m b S/b.py", "python3 -X x S/b.py", "node -r ./x.js S/b.py",
		"perl -Ix S/b.py", "uv run S/b.py", "bun S/b.py", "deno run S/b.py", "Rscript S/b.py", "tsx S/b.py", "make -f S/b.py",
		"awk -f S/b.py", "source S/scripts/a.sh", ". S/scripts/a.sh", "./python3 S/b.py", "cat S/b.py", "cat S/scripts/a.sh",
		// What is not in the folder, or may not be when it starts.
		"./a.sh", "bash a.sh", "./scripts/a.sh", "cd scripts && ./a.sh", "link/scripts/a.sh", "cd ./link && ./scripts/a.sh",
		"S/out.sh", "S/../x2/a.sh", "cd S && ../x2/a.sh", "cd S && cd .. && ./x/scripts/a.sh && true", "S/none.sh", "S2/a.sh",
		"cd none; scripts/a.sh", "cd S; ./scripts/a.sh", "cd - && ./a.sh", "cd && ./a.sh", "~/alias/scripts/a.sh", "", "cd S",
		"S/scripts/a.sh '", "bash", "bash -e", "bash -",
	} {
		c := workspace.Command{Line: strings.ReplaceAll(line, "S/", skill+"/")}
		c.Line = strings.ReplaceAll(strings.ReplaceAll(c.Line, "cd S ", "cd "+skill+" "), "S2/", skill+"2/")
		file, near := runs(c)
		if file != "" {
			t.Errorf("%s gets the secrets, as %s", line, file)
		}
		if strings.HasPrefix(line, "S/scripts/a.sh ") && !near {
			t.Errorf("%s: the model is not told why it gets none", line)
		}
	}
	for _, line := range []string{"~/skills/x/scripts/a.sh | cat", "cd " + skill + " && ./scripts/a.sh; env"} {
		if file, near := runs(workspace.Command{Line: line}); file != "" || !near {
			t.Errorf("%s: %q, %t", line, file, near)
		}
	}
	if file, near := runs(workspace.Command{Line: "./a.sh | cat"}); file != "" || near {
		t.Errorf("a script of the workspace: %q, %t", file, near)
	}
	for _, args := range [][]string{{skill + "/b.py"}, {"python3", skill + "/b.py", "$X"}} {
		if file, _ := runs(workspace.Command{Args: args}); file != skill+"/b.py" {
			t.Errorf("%q: %q", args, file)
		}
	}
	if file, _ := runs(workspace.Command{Args: []string{"env", skill + "/b.py"}}); file != "" {
		t.Errorf("env: %q", file)
	}
}
