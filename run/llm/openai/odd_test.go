package openai_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/llm/anthropic"
	"github.com/knack-agent/knack/run/llm/internal/wiretest"
	"github.com/knack-agent/knack/run/llm/openai"
)

var update = flag.Bool("update", false, "rewrite the events in testdata/odd")

var random = regexp.MustCompile(`call_[A-Z2-7]{20,}`)

// TestOdd: what servers send in the place of what the vendors document is understood, or says what it is. Each file of
// testdata/odd is a server; README.txt there says what it contains.
func TestOdd(t *testing.T) {
	files, err := filepath.Glob("testdata/odd/*.txtar")
	if err != nil || len(files) < 15 {
		t.Fatal(files, err)
	}
	n := 0
	for _, name := range files {
		a, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(a.Files); i += 2 {
			c, want := oddCase(t, a.Files[i]), &a.Files[i+1]
			n++
			t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar")+"/"+a.Files[i].Name, func(t *testing.T) {
				got := outcome(wiretest.Ask(t, c.open, c.reply, wiretest.Hello()))
				if *update {
					want.Data = []byte(got)
				}
				if got != string(want.Data) {
					t.Errorf("got:\n%swant:\n%s", got, want.Data)
				}
			})
		}
		if *update {
			if err := os.WriteFile(name, txtar.Format(a), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n < 120 {
		t.Errorf("only %d cases", n)
	}
}

// An odd case is an answer of a server in the format of open.
type odd struct {
	open  func(llm.Endpoint) llm.Model
	reply wiretest.Reply
}

// oddCase reads lines that begin with "# ", of which the last may be "# HTTP STATUS" or "# OPTION", and the bytes of
// the answer.
func oddCase(t *testing.T, f txtar.File) odd {
	c := odd{open: openai.Chat}
	head, body := 0, f.Data
	for bytes.HasPrefix(body, []byte("# ")) {
		line, rest, _ := bytes.Cut(body, []byte("\n"))
		body = rest
		head++
		switch word, arg, _ := strings.Cut(string(line[2:]), " "); word {
		case "HTTP":
			c.reply.Status, _ = strconv.Atoi(arg)
		case "crlf:":
			body = bytes.ReplaceAll(body, []byte("\n"), []byte("\r\n"))
		case "bom:":
			body = append([]byte("\ufeff"), body...)
		case "breaks:":
			c.reply.Breaks = true
		case "no-newline:":
			body = bytes.TrimRight(body, "\n")
		case "messages:":
			c.open = anthropic.New
		case "responses:":
			c.open = openai.Responses
		}
	}
	if !bytes.HasPrefix(f.Data, []byte("# https://")) || head < 2 {
		t.Errorf("%s has no source", f.Name)
	}
	c.reply.Body = string(body)
	return c
}

// outcome returns what an adapter made of an answer.
func outcome(a wiretest.Answer) string {
	got := random.ReplaceAllString(a.Events, "call_?")
	if a.Done != nil {
		for _, p := range a.Done.Message.Parts {
			switch {
			case p.Thinking != nil:
				got += fmt.Sprintf("has reasoning %q %s\n", p.Thinking.Text, p.Thinking.Opaque)
			case p.Text != "":
				got += fmt.Sprintf("has text %q\n", p.Text)
			}
		}
	}
	var e *llm.Error
	if errors.As(a.Err, &e) {
		again := "final"
		if e.Temporary() {
			again = "again"
		}
		got += fmt.Sprintf("error %s (%s) %s\n", e.Kind, again, e.Message)
	}
	return got
}

// FuzzChat: whatever a server sends, the answer has no call without a name or input, and the same bytes have the same
// meaning.
func FuzzChat(f *testing.F) {
	files, _ := filepath.Glob("testdata/odd/*.txtar")
	for _, name := range files {
		a, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for i := 0; i < len(a.Files); i += 2 {
			f.Add(a.Files[i].Data)
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		one := wiretest.Ask(t, openai.Chat, wiretest.Reply{Body: string(in)}, wiretest.Hello())
		two := wiretest.Ask(t, openai.Chat, wiretest.Reply{Body: string(in)}, wiretest.Hello())
		if outcome(one) != outcome(two) || (one.Done == nil) == (one.Err == nil) {
			t.Errorf("%s%s", outcome(one), outcome(two))
		}
		if one.Done == nil {
			return
		}
		for _, p := range one.Done.Message.Parts {
			if p.Call != nil && (p.Call.ID == "" || len(p.Call.Input) == 0) {
				t.Errorf("%+v", p.Call)
			}
		}
	})
}
