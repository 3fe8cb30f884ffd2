// Program screen draws pictures of the terminal interface, and measures it.
//
//	go run ./screen -out ../docs/screens   # a picture of each scene
//	go run ./screen -out ../docs/screens -only results -film
//	go run ./screen -out /tmp/wide -light -width 200
//	go run ./screen -measure            # first paint, bytes and time of a token, a long conversation
//	tmux capture-pane -pe | go run ./screen -capture > screen.svg
//
// Scenes run the program itself on a pseudo-terminal, with a scripted model; the
// pictures show its output. Nothing else needs to be installed.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/internal/program/terminal/terminaltest"
)

func main() {
	out := flag.String("out", "", "write a picture of each scene into this directory")
	only := flag.String("only", "", "with -out: the scene of this name alone")
	film := flag.Bool("film", false, "with -only: also write NAME-film.svg, which shows each step for two seconds")
	allLight := flag.Bool("light", false, "with -out or -capture: for a light background")
	width := flag.Int("width", 0, "with -out: so many columns; 0: those of the scene")
	program := flag.String("knack", "", "the program to run (default: it is built)")
	isCapture := flag.Bool("capture", false, "draw what tmux capture-pane -pe printed, from standard input")
	isMeasure := flag.Bool("measure", false, "measure the screen")
	flag.Parse()
	err := func() error {
		if *isCapture {
			return capture(os.Stdin, os.Stdout, *allLight)
		}
		if *out == "" && !*isMeasure {
			flag.Usage()
			os.Exit(2)
		}
		dir, err := os.MkdirTemp("", "knack-screen-*")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if *program == "" {
			*program = filepath.Join(dir, "knack")
			build := exec.Command("go", "build", "-o", *program, "github.com/knack-agent/knack/cmd/knack")
			build.Stderr = os.Stderr
			if err := build.Run(); err != nil {
				return err
			}
		}
		if *isMeasure {
			return measure(*program, dir, os.Stdout)
		}
		for i, s := range slices.Concat(scenes, skillScenes) {
			if *only != "" && *only != s.name {
				continue
			}
			s.light = s.light || *allLight
			if *width > 0 {
				s.width = *width
			}
			pictures, err := s.draw(*program, filepath.Join(dir, s.name))
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			name := s.name + ".svg"
			if i < len(scenes) {
				name = fmt.Sprintf("%02d-%s", i+1, name)
			}
			last := pictures[len(pictures)-1]
			if err := os.WriteFile(filepath.Join(*out, name), []byte(last), 0o644); err != nil {
				return err
			}
			if *film && *only != "" {
				moving := inTurn(pictures, s.width, s.height)
				if err := os.WriteFile(filepath.Join(*out, s.name+"-film.svg"), []byte(moving), 0o644); err != nil {
					return err
				}
			}
		}
		return nil
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "screen:", err)
		os.Exit(1)
	}
}

// capture draws rows of text with SGR sequences.
func capture(in io.Reader, out io.Writer, isLight bool) error {
	colours := dark
	if isLight {
		colours = light
	}
	data, err := io.ReadAll(in)
	if err != nil {
		return err
	}
	text := strings.NewReplacer("\x0e", "", "\x0f", "").Replace(strings.TrimRight(string(data), "\n"))
	rows := strings.Split(text, "\n")
	width := 1
	for _, r := range rows {
		vt := terminaltest.New(1000, 1)
		vt.Write([]byte(r))
		width = max(width, len(vt.Rows()[0]))
	}
	vt := terminaltest.New(width, len(rows))
	vt.Write([]byte(strings.Join(rows, "\r\n") + "\x1b[?25l"))
	_, err = io.WriteString(out, picture(vt, width, len(rows), colours, "a terminal"))
	return err
}
