package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/creack/pty"

	"github.com/knack-agent/knack/internal/program/terminal/terminaltest"
)

// A drive runs the program on a pseudo-terminal.
type drive struct {
	cmd    *exec.Cmd
	pty    *os.File
	events chan struct{} // receives a value when something was written
	ended  chan struct{}

	mu    sync.Mutex
	vt    *terminaltest.VT
	first time.Time // time of the first output
	bytes int
}

// start runs the program in dir/work with dir as its home.
func start(program, dir string, width, height int, env []string, args ...string) (*drive, error) {
	work := filepath.Join(dir, "work")
	if err := os.MkdirAll(work, 0o755); err != nil {
		return nil, err
	}
	cmd := exec.Command(program, append([]string{"--trust", "--sandbox", "off"}, args...)...)
	cmd.Dir = work
	cmd.Env = append([]string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "TERM=xterm-256color", "COLORTERM=truecolor",
		"KNACK_UI=screen"},
		env...)
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: uint16(height), Cols: uint16(width)})
	if err != nil {
		return nil, err
	}
	d := &drive{cmd: cmd, pty: f, events: make(chan struct{}, 1), ended: make(chan struct{}),
		vt: terminaltest.New(width, height)}
	go func() {
		defer close(d.ended)
		buf := make([]byte, 64<<10)
		for {
			n, err := f.Read(buf)
			d.mu.Lock()
			if n > 0 && d.first.IsZero() {
				d.first = time.Now()
			}
			d.bytes += n
			d.vt.Write(buf[:n])
			d.mu.Unlock()
			select {
			case d.events <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	return d, nil
}

// waitTimeout is how long a scene waits for the expected output.
const waitTimeout = 30 * time.Second

// wait waits until the content of the terminal matches the regular expression expr.
func (d *drive) wait(expr string) error {
	re, timeout := regexp.MustCompile(expr), time.After(waitTimeout)
	for {
		d.mu.Lock()
		all := d.vt.All()
		d.mu.Unlock()
		if re.MatchString(all) {
			return nil
		}
		select {
		case <-d.events:
		case <-d.ended:
			return fmt.Errorf("the program ended before it showed %q:\n%s", expr, all)
		case <-timeout:
			return fmt.Errorf("%q did not come:\n%s", expr, all)
		}
	}
}

func (d *drive) types(keys string) error {
	_, err := io.WriteString(d.pty, keys)
	return err
}

// close ends the program.
func (d *drive) close() error {
	err := d.cmd.Process.Kill()
	<-d.ended
	d.cmd.Wait()
	return errors.Join(err, d.pty.Close())
}
