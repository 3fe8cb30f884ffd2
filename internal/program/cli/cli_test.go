package cli

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/knack-agent/knack/confine/sandbox"
	_ "github.com/knack-agent/knack/confine/sandbox/launcher"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/internal/leaf/chromium"
	"github.com/knack-agent/knack/run/llm/llmtest"
)

var update = flag.Bool("update", false, "rewrite the golden parts of the scripts")

func TestMain(m *testing.M) {
	// Most of these tests wait: for programs that they started, for pauses, for the disk. -parallel still decides.
	flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)))
	testscript.Main(withScripts{m}, map[string]func(){
		"knack":      func() { os.Exit(Main()) },
		"signalled":  signalled,
		"toolserver": toolServer,
	})
}

// withScripts runs the tests, and then removes the directories of all scripts. Ext4 without a journal passes over each
// file that was removed in the last minutes when it makes one, so that removing them one by one slows the rest down.
type withScripts struct{ *testing.M }

var scriptDirs string

func (m withScripts) Run() int {
	var err error
	if scriptDirs, err = os.MkdirTemp("", "cli"); err != nil { // short: some messages are cut after a path
		panic(err)
	}
	code := m.M.Run()
	if keep := flag.Lookup("testwork"); keep.Value.String() != "true" {
		filepath.WalkDir(scriptDirs, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				os.Chmod(path, 0o700) // scripts have some that are read-only
			}
			return nil
		})
		os.RemoveAll(scriptDirs)
	}
	return code
}

// scriptRoot returns a new directory for directories of scripts.
func scriptRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(scriptDirs, "")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestScript runs the program as a user would, with its own home directory.
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Files:         scriptFiles(t),
		UpdateScripts: *update,
		WorkdirRoot:   scriptRoot(t),
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"llmserver": llmserver, "exits": exits, "dead": dead, "prompts": prompts,
			"skilltext": skilltext, "requests": requests, "lastmessage": lastmessage, "turns": turns, "hookinputs": hookInputs,
			"hookevents": hookEvents, "hookserver": hookServer, "pageserver": pageServer,
		},
		Condition: func(cond string) (bool, error) {
			if name, ok := strings.CutPrefix(cond, "part:"); ok {
				return hasPart(name), nil
			}
			switch cond {
			case "root":
				return os.Geteuid() == 0, nil
			case "mounts":
				return exec.Command("unshare", "-m", "mount", "-t", "tmpfs", "none", t.TempDir()).Run() == nil, nil
			case "browser":
				return os.Getenv("KNACK_TEST_BROWSER") != "" && chromium.Find(os.Getenv) != "", nil
			case "sandbox", "layers":
				policy, err := sandbox.Default(t.TempDir())
				if err != nil {
					return false, err
				}
				policy.Caches = []sandbox.Cache{{Variable: "CACHE", Path: t.TempDir()}}
				policy.Layers = t.TempDir()
				box := sandbox.New(policy, sandbox.Auto)
				defer box.Close()
				if cond == "layers" {
					return len(box.CacheReport().Layered) > 0, nil
				}
				return box.Report().Level == sandbox.Complete, nil
			}
			return false, fmt.Errorf("unknown condition %s", cond)
		},
		Setup: func(e *testscript.Env) error { return atHome(e) },
	})
}

// hasPart reports whether the program has a part, for tests that need more than one: the removal of a part takes its own
// tests with it, and breaks no others.
func hasPart(name string) bool {
	return slices.ContainsFunc(part.All(), func(p engine.Part) bool { return p.Name == name })
}

// scriptFiles returns the scripts of TestScript, those of parts included, which lie in the folders of the parts. Each
// starts the program a dozen times, so with -short there are as many as it takes to have each command once.
// KNACK_SCRIPTS is a regular expression for other ones; CI has one where it looks for races.
func scriptFiles(t *testing.T) []string {
	t.Helper()
	all, err := filepath.Glob("testdata/script/*.txt*")
	if err != nil || len(all) < 100 {
		t.Fatalf("%d scripts: %v", len(all), err)
	}
	ofParts, err := filepath.Glob("../../../engine/part/*/testdata/script/*.txt*")
	if err != nil || len(ofParts) == 0 {
		t.Fatalf("%d scripts of parts: %v", len(ofParts), err)
	}
	all = append(all, ofParts...)
	if chosen := os.Getenv("KNACK_SCRIPTS"); chosen != "" {
		re := regexp.MustCompile(chosen)
		return slices.DeleteFunc(all, func(file string) bool { return !re.MatchString(filepath.Base(file)) })
	}
	if !testing.Short() {
		return all
	}
	start := regexp.MustCompile(`(?m)^[!?]? *(?:exec )?knack ([a-z-]+)`)
	texts := map[string][]byte{}
	for _, file := range all {
		if texts[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return cmp.Compare(len(texts[a]), len(texts[b])) })
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(file string) bool {
		before := len(seen)
		for _, m := range start.FindAllSubmatch(texts[file], -1) {
			seen[string(m[1])] = true
		}
		return len(seen) == before
	})
}

// atHome gives a script its own home directory, and adds more to its environment.
func atHome(e *testscript.Env, more ...string) error {
	home := e.WorkDir + "/home"
	for _, kv := range append([]string{
		"HOME=" + home, "XDG_CONFIG_HOME=" + home + "/.config", "XDG_STATE_HOME=" + home + "/.local/state",
		"XDG_DATA_HOME=" + home + "/.local/share",
		"KNACK_BROWSER=none",       // what is listed must not depend on the machine
		"GORACE=atexit_sleep_ms=0", // without it each program built with the race detector exits a second late
	}, more...) {
		name, value, _ := strings.Cut(kv, "=")
		e.Setenv(name, value)
	}
	return os.MkdirAll(home, 0o700)
}

// llmserver starts a scripted model server and configures the program to use it: llmserver SCRIPT.json
// [REQUESTS.jsonl]. The server stops with the test script.
func llmserver(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: llmserver script.json [requests.jsonl]")
	}
	scriptedServer(ts, args...)
}

// scriptedServer starts the server of a script file. It records requests in a second file if one is given.
func scriptedServer(ts *testscript.TestScript, files ...string) *llmtest.Server {
	answers, err := llmtest.ReadScript(ts.MkAbs(files[0]))
	ts.Check(err)
	s := llmtest.NewServer(answers...)
	ts.Defer(s.Close)
	if len(files) == 2 {
		f, err := os.Create(ts.MkAbs(files[1]))
		ts.Check(err)
		ts.Defer(func() { f.Close() })
		s.Record(f)
	}
	for _, kv := range s.Env() {
		k, v, _ := strings.Cut(kv, "=")
		ts.Setenv(k, v)
	}
	ts.Defer(func() {
		if refused := s.Refused(); len(refused) > 0 {
			ts.Logf("the server refused: %q", refused)
		}
	})
	return s
}

// skilltext writes the text of the last skill in the last recorded request: skilltext REQUESTS.jsonl OUT. The
// directory of the test script is written as $WORK.
func skilltext(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: skilltext requests.jsonl out")
	}
	lines := strings.Split(strings.TrimSpace(ts.ReadFile(args[0])), "\n")
	var text string
	var find func(v any)
	find = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				find(e)
			}
		case map[string]any:
			for _, e := range v {
				find(e)
			}
		case string:
			if strings.HasPrefix(v, "<command-message>") {
				text = v
			}
		}
	}
	var body any
	ts.Check(json.Unmarshal([]byte(lines[len(lines)-1]), &body))
	find(body)
	text = strings.ReplaceAll(text, ts.Getenv("WORK"), "$WORK")
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o644))
}
