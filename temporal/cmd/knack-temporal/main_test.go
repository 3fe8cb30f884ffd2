package main

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMain lets the test program be knack-temporal.
func TestMain(m *testing.M) {
	if os.Getenv("KNACK_TEST_MAIN") != "" {
		os.Exit(run())
	}
	os.Exit(m.Run())
}

// TestHints: hints and help texts name this program, with the server that it was told, and not knack.
func TestHints(t *testing.T) {
	for args, want := range map[string]string{
		"--address 127.0.0.1:1 --tls batch statsu": "hint: knack-temporal --address 127.0.0.1:1 --tls batch status",
		"batch a b":     "hint: knack-temporal batch TASKS.jsonl",
		"schedule add":  "hint: knack-temporal schedule add 'every weekday at 9:00' 'your prompt'",
		"batch --help":  "\n  knack-temporal batch tasks.jsonl",
		"worker --help": "Run schedules at their times",
	} {
		c := exec.Command(os.Args[0], strings.Fields(args)...)
		c.Dir, c.Env = t.TempDir(), append(os.Environ(), "KNACK_TEST_MAIN=1", "HOME="+t.TempDir())
		out, err := c.CombinedOutput()
		if err == nil != strings.Contains(args, "--help") {
			t.Errorf("%s: %v", args, err)
		}
		if got := string(out); !strings.Contains(got, want) || strings.Contains(got, " knack batch") {
			t.Errorf("%s: %s\nlacks: %s", args, got, want)
		}
	}
}
