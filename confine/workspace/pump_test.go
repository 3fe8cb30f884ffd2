package workspace

import (
	"bytes"
	"io"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// How long a pipe that a background child holds open delays the call: to its end, until it is silent, or for a
// maximum time.
func TestPumpWait(t *testing.T) {
	for _, c := range []struct {
		name   string
		idle   time.Duration
		pause  time.Duration // before each write
		words  int
		closes bool
		took   time.Duration
		out    string
	}{
		{"silent", 0, 0, 0, false, idle, ""},
		{"ended", 0, 0, 0, true, 0, ""},
		{"ends soon", 0, 30 * time.Millisecond, 2, true, 60 * time.Millisecond, "xx"},
		{"one write, then silent", 0, 30 * time.Millisecond, 1, false, 40*time.Millisecond + idle, "x"},
		{"too late", 0, idle + 50*time.Millisecond, 1, false, idle, ""},
		{"late from a host", hostIdle, idle + 50*time.Millisecond, 1, false, 160*time.Millisecond + hostIdle, "x"},
		{"never silent", 0, 40 * time.Millisecond, 1000, false, drain, "x"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r, w := io.Pipe()
			var out bytes.Buffer
			p := &pump{r: r, out: &out, done: make(chan struct{}), idle: c.idle}
			go p.run()
			go func() {
				for range c.words {
					time.Sleep(c.pause)
					w.Write([]byte("x"))
				}
				if c.closes {
					w.Close()
				}
			}()
			if c.closes && c.words == 0 {
				synctest.Wait()
			}
			start := time.Now()
			p.wait()
			got := out.String()
			if took := time.Since(start); took != c.took || !bytes.HasPrefix([]byte(got), []byte(c.out)) || c.words < 3 &&
				got != c.out {
				t.Errorf("%s: took %v, want %v; read %q", c.name, took, c.took, got)
			}
			time.Sleep(time.Minute) // a process that still writes is not killed
			if len(out.String()) != len(got) {
				t.Errorf("%s: written after the end", c.name)
			}
			w.Close()
			<-p.done
		})
	}
}

// A command's output is not lost if this program gets no CPU time to read it before the pipe counts as idle.
func TestPumpStarved(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var out bytes.Buffer
	p := &pump{r: r, out: &out, done: make(chan struct{}), flushed: make(chan struct{})}
	if _, err := w.WriteString("written before the end"); err != nil {
		t.Fatal(err)
	}
	go func() {
		time.Sleep(3 * idle)
		p.run()
	}()
	p.wait()
	if runtime.GOOS != "windows" && out.String() != "written before the end" {
		t.Errorf("read %q", out.String())
	}
	if _, err := w.WriteString("late"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	<-p.done
	if bytes.HasSuffix(out.Bytes(), []byte("late")) {
		t.Error("written after the end")
	}
}
