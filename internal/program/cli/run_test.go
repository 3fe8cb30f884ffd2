package cli

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/knack-agent/knack/run/hook"
)

// A program of the test scripts, run with exec.

// signalled runs a command, sends it a signal as soon as the file matches the regular expression, and checks the exit
// code. The command gets signalled's standard input, if any, without an end of file:
// signalled INT|TERM|HUP|KILL CODE FILE REGEXP COMMAND ARG…
func signalled() {
	if len(os.Args) < 6 {
		giveUp("usage: signalled INT|TERM|HUP|KILL code file regexp command arg…")
	}
	sig := map[string]os.Signal{
		"INT": os.Interrupt, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "KILL": os.Kill,
	}[os.Args[1]]
	file, re := os.Args[3], regexp.MustCompile(os.Args[4])
	cmd := exec.Command(os.Args[5], os.Args[6:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if input, _ := io.ReadAll(os.Stdin); len(input) > 0 { // the pipe stays open
		w, err := cmd.StdinPipe()
		if err != nil {
			giveUp("%v", err)
		}
		go w.Write(input)
	}
	if err := cmd.Start(); err != nil {
		giveUp("%v", err)
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	if !until(func() bool {
		select {
		case <-ended:
			giveUp("it ended before %s matched %s", file, re)
		default:
		}
		data, _ := os.ReadFile(file)
		return re.Match(data)
	}) {
		giveUp("%s never matched %s", file, re)
	}
	if err := cmd.Process.Signal(sig); err != nil {
		giveUp("%v", err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		cmd.Process.Kill()
		giveUp("it went on for %s after the signal", patience)
	}
	if got := strconv.Itoa(cmd.ProcessState.ExitCode()); got != os.Args[2] {
		giveUp("exit code %s, want %s (%s)", got, os.Args[2], cmd.ProcessState)
	}
}

// patience is how long a test waits for an expected event: long, because the machine may be busy.
const patience = 60 * time.Second

// until waits for ok, and returns whether it became true.
func until(ok func() bool) bool {
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

func giveUp(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	os.Exit(99)
}

// Commands of the test scripts.

// exits runs a command and fails unless it exits with the given code: exits CODE COMMAND ARG…
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits code command arg…")
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d, want %s", got, args[0])
	}
}

// dead waits until the process whose id is in a file has ended: dead PIDFILE
func dead(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: dead pidfile")
	}
	pid, err := strconv.Atoi(strings.TrimSpace(ts.ReadFile(args[0])))
	ts.Check(err)
	if !until(func() bool {
		p, err := os.FindProcess(pid)
		return err != nil || p.Signal(syscall.Signal(0)) != nil
	}) {
		ts.Fatalf("process %d lives", pid)
	}
}

// prompts writes lines of stream-json input, one for each prompt: prompts OUT PROMPT…
func prompts(ts *testscript.TestScript, neg bool, args []string) {
	typed := len(args) > 0 && args[0] == "-typed"
	if typed {
		args = args[1:]
	}
	if neg || len(args) < 2 {
		ts.Fatalf("usage: prompts [-typed] out prompt…")
	}
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	for _, text := range args[1:] {
		ts.Check(lines.Encode(map[string]any{"type": "user", "typed": typed,
			"message": map[string]string{"role": "user", "content": text}}))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), out.Bytes(), 0o644))
}

// requests writes the given fields of each recorded request, one line per request, as JSON, with "-" for a missing
// field: requests REQUESTS.jsonl OUT FIELD…
func requests(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: requests requests.jsonl out field.field…")
	}
	var out strings.Builder
	for _, body := range bodies(ts, args[0]) {
		for i, path := range args[2:] {
			var v any = body
			for _, name := range strings.Split(path, ".") {
				m, _ := v.(map[string]any)
				v = m[name]
			}
			text := "-"
			if v != nil {
				data, err := json.Marshal(v)
				ts.Check(err)
				text = string(data)
			}
			if i > 0 {
				out.WriteString(" ")
			}
			out.WriteString(text)
		}
		out.WriteString("\n")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(out.String()), 0o644))
}

// lastmessage writes a summary of the last message of the last recorded request, one line per content block:
// lastmessage REQUESTS.jsonl OUT
func lastmessage(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: lastmessage requests.jsonl out")
	}
	all := bodies(ts, args[0])
	messages, _ := all[len(all)-1]["messages"].([]any)
	message, _ := messages[len(messages)-1].(map[string]any)
	content, _ := message["content"].([]any)
	out := fmt.Sprintln(message["role"])
	for _, c := range content {
		m, _ := c.(map[string]any)
		switch m["type"] {
		case "tool_result":
			out += fmt.Sprintln("tool_result", m["tool_use_id"], m["is_error"] == true)
		case "text":
			first, _, _ := strings.Cut(m["text"].(string), "\n")
			out += fmt.Sprintln("text", first)
		default:
			out += fmt.Sprintln(m["type"])
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(out), 0o644))
}

// turns writes one line for each recorded request: the model, its tools and the whole conversation, with the first
// line of each text: turns REQUESTS.jsonl OUT
func turns(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: turns requests.jsonl out")
	}
	var out strings.Builder
	for _, body := range bodies(ts, args[0]) {
		fmt.Fprint(&out, body["model"], " tools:")
		tools, _ := body["tools"].([]any)
		for _, t := range tools {
			fmt.Fprint(&out, " ", t.(map[string]any)["name"])
		}
		messages, _ := body["messages"].([]any)
		for _, m := range messages {
			m := m.(map[string]any)
			fmt.Fprint(&out, " | ", m["role"], ":")
			content, _ := m["content"].([]any)
			for _, c := range content {
				switch c := c.(map[string]any); c["type"] {
				case "text":
					first, _, _ := strings.Cut(c["text"].(string), "\n")
					fmt.Fprint(&out, " ", first)
				case "tool_use":
					fmt.Fprintf(&out, " [%s]", c["name"])
				case "tool_result":
					fmt.Fprintf(&out, " [%s %s]", map[bool]string{false: "result", true: "failed"}[c["is_error"] == true],
						c["tool_use_id"])
				default:
					fmt.Fprintf(&out, " [%s]", c["type"])
				}
			}
		}
		fmt.Fprintln(&out)
	}
	text := regexp.MustCompile(`\d{8}-\d{6}-[0-9a-f]{8}`).ReplaceAllString(out.String(), "ID")
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o644))
}

func bodies(ts *testscript.TestScript, file string) []map[string]any {
	var all []map[string]any
	for line := range strings.Lines(ts.ReadFile(file)) {
		var rec struct{ Body map[string]any }
		ts.Check(json.Unmarshal([]byte(line), &rec))
		all = append(all, rec.Body)
	}
	if len(all) == 0 {
		ts.Fatalf("%s: no request was recorded", file)
	}
	return all
}

// hookInputs writes the inputs that hooks received, one JSON object per line, without values that differ from run to
// run: hookinputs LINES OUT
func hookInputs(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: hookinputs lines out")
	}
	text := strings.ReplaceAll(ts.ReadFile(args[0]), ts.Getenv("WORK"), "$WORK")
	text = regexp.MustCompile(`"duration_ms":\d+`).ReplaceAllString(text, `"duration_ms":1`)
	text = regexp.MustCompile(`"prompt_id":"[0-9a-f-]{36}"`).ReplaceAllString(text, `"prompt_id":"UUID"`)
	text = regexp.MustCompile(`"seconds":[0-9.e-]+`).ReplaceAllString(text, `"seconds":1`)
	text = regexp.MustCompile(`/sessions/[^/]*/`).ReplaceAllString(text, "/sessions/DIR/")
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o644))
}

// hookEvents writes, for each input that hooks received, the event and its source or reason: hookevents LINES OUT
func hookEvents(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: hookevents lines out")
	}
	var out strings.Builder
	for line := range strings.Lines(ts.ReadFile(args[0])) {
		var in hook.Input
		ts.Check(json.Unmarshal([]byte(line), &in))
		fmt.Fprintln(&out, strings.TrimSpace(string(in.Event)+" "+string(in.Source)+in.Reason))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(out.String()), 0o644))
}

// hookServer starts a server that gives every event the same answer, records the posted events, and writes settings
// with a PreToolUse hook for it: hookserver ANSWER POSTED SETTINGS. It stops with the test script.
func hookServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: hookserver answer posted settings")
	}
	answer := ts.ReadFile(args[0])
	posted, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(posted, r.Body)
		io.WriteString(w, answer)
	}))
	ts.Defer(func() {
		s.Close()
		posted.Close()
	})
	text := `{"hooks": {"PreToolUse": [{"hooks": [{"type": "http", "url": "` + s.URL + `"}]}]}}`
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(text), 0o644))
}

// pageServer serves the files of a directory on loopback and replaces $PAGES in other files by its host and port:
// pageserver [-tls] DIR FILE... With -tls it speaks https, and ca.pem is its authority.
func pageServer(ts *testscript.TestScript, neg bool, args []string) {
	private := len(args) > 0 && args[0] == "-tls"
	if private {
		args = args[1:]
	}
	if neg || len(args) < 2 {
		ts.Fatalf("usage: pageserver [-tls] dir file...")
	}
	s := httptest.NewUnstartedServer(http.FileServer(http.Dir(ts.MkAbs(args[0]))))
	ts.Defer(s.Close)
	if private {
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
		ts.Check(os.WriteFile(ts.MkAbs("ca.pem"), ca, 0o644))
	} else {
		s.Start()
	}
	_, host, _ := strings.Cut(s.URL, "://")
	ts.Setenv("PAGES", host)
	for _, name := range args[1:] {
		text := strings.ReplaceAll(ts.ReadFile(name), "$PAGES", host)
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o644))
	}
}
