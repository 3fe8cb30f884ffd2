// Command plugins installs plugins of public marketplaces and uses a part of each kind that they have: a skill, a
// command, an agent, the hooks of a turn, and the servers.
//
//	go run ./plugins [-each 3] [-beside claude[=PATH]] [-v] DIR
//
// DIR has clones of repositories with marketplaces; the plugins with most kinds of parts come first. Each plugin gets a
// home of its own. The model is scripted: it writes a file, runs a command, calls an agent. A part counts as used if
// what the plugin's file says reached the model; hooks count by event if none failed; a server if it answered. Hooks
// and servers run in the sandbox: those whose programs or networks are missing here fail.
//
// With -beside, Claude Code does the same with the same plugin, and a table compares, with one line for each
// difference. It takes the names of Anthropic's own marketplaces only from GitHub, so both get a copy with another
// name.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/knack-agent/knack/bench"
)

func main() {
	bench.Launched()
	log.SetFlags(0)
	log.SetPrefix("plugins: ")
	each := flag.Int("each", 3, "plugins of each marketplace; 0: all")
	beside := flag.String("beside", "", "claude, or claude=PATH: compare with Claude Code")
	verbose := flag.Bool("v", false, "print what failed")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("which directory has the clones?")
	}
	if err := run(flag.Arg(0), *each, *beside, *verbose); err != nil {
		log.Fatal(err)
	}
}

func run(dir string, each int, beside string, verbose bool) error {
	tmp, err := os.MkdirTemp("", "knack-plugins-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	d := &driver{tmp: tmp, counts: map[string]*count{}, verbose: verbose}
	self := knack(filepath.Join(tmp, "knack"))
	if err := bench.Build(self.path, "github.com/knack-agent/knack/cmd/knack"); err != nil {
		return err
	}
	d.programs = []*program{self}
	if beside != "" {
		other, err := claude(beside)
		if err != nil {
			return err
		}
		d.programs = append(d.programs, other)
	}
	d.server = httptest.NewServer(http.HandlerFunc(d.answer))
	defer d.server.Close()
	clones, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	for _, clone := range clones {
		m, err := readMarket(clone)
		if err != nil {
			log.Printf("%s: %v", filepath.Base(clone), err)
			continue
		}
		if each > 0 {
			m.plugins = m.plugins[:min(each, len(m.plugins))]
		}
		if beside != "" && strings.HasPrefix(filepath.Base(clone), "anthropics+") {
			if err := m.copyTo(filepath.Join(tmp, "copies", filepath.Base(clone))); err != nil {
				return err
			}
		}
		for _, name := range m.plugins {
			if err := d.drive(m, name); err != nil {
				return err
			}
		}
	}
	if beside != "" {
		return d.report(os.Stdout)
	}
	table := bench.Table{Title: "Plugins", Head: []string{"what", "parts", "used"}}
	for _, what := range kinds {
		c := d.count(what)
		table.Add(what, c.of, c.used)
	}
	return table.Write(os.Stdout)
}

// A market is a clone with a marketplace.
type market struct {
	dir, name, manifest string
	plugins             []string // those whose files are in it
}

// readMarket reads a marketplace. Plugins with most kinds of parts come first.
func readMarket(clone string) (*market, error) {
	var list struct {
		Name    string
		Plugins []struct {
			Name   string
			Source json.RawMessage
		}
	}
	m := &market{dir: clone}
	for _, name := range []string{".claude-plugin/marketplace.json", ".agents/plugins/marketplace.json",
		".github/plugin/marketplace.json", "marketplace.json"} {
		data, err := os.ReadFile(filepath.Join(clone, name))
		if err != nil {
			continue
		}
		if err := json.Unmarshal(data, &list); err != nil {
			return nil, err
		}
		m.name, m.manifest = list.Name, name
		break
	}
	parts := map[string]int{}
	for _, p := range list.Plugins {
		var source string
		local := json.Unmarshal(p.Source, &source) == nil
		if !local && !bytes.Contains(p.Source, []byte(`"local"`)) {
			continue
		}
		m.plugins = append(m.plugins, p.Name)
		for _, part := range []string{"skills", "commands", "agents", "hooks/hooks.json", ".mcp.json"} {
			if _, err := os.Stat(filepath.Join(clone, source, part)); local && err == nil {
				parts[p.Name]++
			}
		}
	}
	slices.SortStableFunc(m.plugins, func(a, b string) int { return parts[b] - parts[a] })
	return m, nil
}

// copyTo copies the marketplace and gives it a name that is not reserved.
func (m *market) copyTo(dir string) error {
	data, err := os.ReadFile(filepath.Join(m.dir, m.manifest))
	if err != nil {
		return err
	}
	name := "copy-of-" + strings.TrimPrefix(strings.TrimPrefix(m.name, "claude-"), "anthropic-")
	data = bytes.Replace(data, []byte(`"`+m.name+`"`), []byte(`"`+name+`"`), 1)
	if err := errors.Join(os.MkdirAll(filepath.Dir(dir), 0o700), os.CopyFS(dir, os.DirFS(m.dir)),
		os.WriteFile(filepath.Join(dir, m.manifest), data, 0o600)); err != nil {
		return err
	}
	m.dir, m.name = dir, name
	return nil
}

// variables are what is replaced in a text.
var variables = regexp.MustCompile("[$`\\\\{}\"]")

// lastLine returns the last line that is in a request as it is in the file.
func lastLine(text string) string {
	lines := strings.Split(text, "\n")
	for _, line := range slices.Backward(lines) {
		if line = strings.TrimSpace(line); len(line) > 10 && !variables.MatchString(line) {
			return line
		}
	}
	return ""
}
