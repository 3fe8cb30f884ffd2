// Command builds measures what the sandbox and its layers over the caches of language tools cost a build.
//
//	go run ./builds [-host registry.npmjs.org] DIR COMMAND
//
// COMMAND runs in copies of DIR: twice outside the sandbox, which also fills the user's caches, then in the sandbox
// with an empty layer, again with what that stored, and in a second project. Each copy is new, so nothing but the
// caches is kept. It is shell text, for example "npm ci && npm run build".
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/knack-agent/knack/bench"
	"github.com/knack-agent/knack/confine/sandbox"
	_ "github.com/knack-agent/knack/confine/sandbox/launcher"
	"github.com/knack-agent/knack/confine/workspace"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("builds: ")
	hosts := flag.String("host", "", "hosts that the command may reach in the sandbox, with commas")
	flag.Parse()
	if flag.NArg() != 2 {
		log.Fatal("which directory, and which command?")
	}
	open := strings.FieldsFunc(*hosts, func(r rune) bool { return r == ',' })
	if err := measure(os.Stdout, flag.Arg(0), flag.Arg(1), open); err != nil {
		log.Fatal(err)
	}
}

func measure(out io.Writer, dir, line string, hosts []string) error {
	tmp, err := bench.VisibleTemp("knack-builds-")
	if err != nil {
		return err
	}
	defer func() { // Go's module cache has directories without write permission
		exec.Command("chmod", "-R", "u+w", tmp).Run()
		os.RemoveAll(tmp)
	}()
	table := bench.Table{Title: filepath.Base(dir) + ": " + line, Head: []string{"", "s", "CPU, s", "layer, MB", "exit"}}
	for _, row := range []struct{ name, project string }{
		{"outside", ""}, {"outside, again", ""}, {"sandbox, empty layer", "1"}, {"sandbox, again", "1"},
		{"another project", "2"},
	} {
		project := filepath.Join(tmp, cmp.Or(row.project, "1"), filepath.Base(dir))
		if err := os.RemoveAll(project); err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(project), 0o755); err != nil {
			return err
		}
		if text, err := exec.Command("cp", "-a", dir, project).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, text)
		}
		ws, err := workspace.NewLocal(project)
		if err != nil {
			return err
		}
		var box *sandbox.Sandbox
		if row.project != "" {
			policy, err := sandbox.Default(project)
			if err != nil {
				return err
			}
			policy.Layers, policy.Hosts = filepath.Join(tmp, "layers", row.project), hosts
			box = sandbox.New(policy, sandbox.Require)
			ws.Confine = box.Confine
		}
		var text bytes.Buffer
		began, used := time.Now(), bench.CPU()
		exit, err := ws.Run(context.Background(), workspace.Command{Line: line, Output: &text})
		took, used := time.Since(began), bench.CPU()-used
		if err := errors.Join(err, ws.Close()); err != nil {
			return err
		}
		size := "–"
		if box != nil {
			report := box.CacheReport()
			size = bench.Number(float64(report.Bytes) / 1e6)
			if report.Problem != "" {
				log.Print("no layers: ", report.Problem)
			}
			box.Close()
		}
		if exit.Code != 0 || len(exit.Refused) > 0 {
			log.Printf("%s: exit %d, refused %q\n…%s", row.name, exit.Code, exit.Refused,
				text.String()[max(0, text.Len()-3000):])
		}
		table.Add(row.name, bench.Number(took.Seconds()), bench.Number(used.Seconds()), size, exit.Code)
	}
	return table.Write(out)
}
