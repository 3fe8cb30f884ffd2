package cli

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/engine"
)

// TestSystemdUnit has systemd read the unit, with a program whose path needs quoting. Quotes in it systemd does not
// accept.
func TestSystemdUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "100% of $HOME")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := systemdService([]string{program, "worker", "--jobs", "4"}, [][2]string{{"PATH", `/a "b":/c\d:$e:%f`}},
		engine.Env(nil))
	unit := filepath.Join(dir, filepath.Base(s.file))
	if err := os.WriteFile(unit, []byte(s.content), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(analyze, "verify", "--user", "--man=no", unit)
	c.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+dir, "HOME="+dir)
	if out, err := c.CombinedOutput(); err != nil || strings.Contains(string(out), "knack") {
		t.Errorf("%v: %s\n%s", err, out, s.content)
	}
}

// TestLaunchdAgent: the property list has the arguments and variables as they are, whatever is in them.
func TestLaunchdAgent(t *testing.T) {
	args := []string{"/a <b> & c/knack", "worker", "--jobs", "4"}
	s := launchdService(args, [][2]string{{"PATH", `"x"&y`}}, engine.Env(nil))
	d := xml.NewDecoder(strings.NewReader(s.content))
	var texts []string
	for depth := 0; ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) && depth == 0 {
			break
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, s.content)
		}
		switch x := token.(type) {
		case xml.StartElement:
			depth++
		case xml.EndElement:
			depth--
		case xml.CharData:
			if text := strings.TrimSpace(string(x)); text != "" {
				texts = append(texts, text)
			}
		}
	}
	want := slices.Concat([]string{"Label", launchLabel, "ProgramArguments"}, args,
		[]string{"EnvironmentVariables", "PATH", `"x"&y`})
	if len(texts) < len(want) || !slices.Equal(texts[:len(want)], want) {
		t.Errorf("%q", texts)
	}
	if plutil, err := exec.LookPath("plutil"); err == nil {
		c := exec.Command(plutil, "-lint", "-")
		c.Stdin = strings.NewReader(s.content)
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	}
}
