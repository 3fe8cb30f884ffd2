package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/program/editor"
	"github.com/knack-agent/knack/run/llm"
	"github.com/knack-agent/knack/run/media"
)

const (
	// clipboardTime is the time limit of a program that reads the clipboard.
	clipboardTime = 5 * time.Second
	// maxImage is the maximum size of a pasted image in bytes. The read tool scales it down.
	maxImage = 32 << 20
)

// clipboardPrograms returns commands that print the image in the clipboard.
func clipboardPrograms(env func(string) string) [][]string {
	switch {
	case runtime.GOOS == "darwin":
		return [][]string{{"pngpaste", "-"}}
	case runtime.GOOS == "windows":
		return nil
	case env("WAYLAND_DISPLAY") != "":
		return [][]string{{"wl-paste", "--no-newline", "--type", "image/png"}}
	case env("DISPLAY") != "":
		return [][]string{{"xclip", "-selection", "clipboard", "-target", "image/png", "-out"}}
	}
	return nil
}

// pasteImage attaches the image from the clipboard.
func (a *app) pasteImage() {
	programs := clipboardPrograms(a.env)
	if len(programs) == 0 {
		a.view.hint = "Images cannot be read from the clipboard here."
		return
	}
	dir := a.session.Engine().Project().Dir()
	a.work(func(ctx context.Context) func() {
		ctx, stop := context.WithTimeout(ctx, clipboardTime)
		defer stop()
		var data []byte
		var err error
		for _, p := range programs {
			if data, err = clipboard(ctx, p, a.env("PATH"), dir); err == nil {
				break
			}
		}
		file := ""
		if err == nil {
			file, err = a.imageFile(data)
		}
		return func() {
			if err != nil {
				a.view.hint = "The clipboard has no image that can be sent: " + plain.Line(err.Error())
				return
			}
			a.attachImage(file, len(data))
		}
	})
}

// clipboard runs a program from the PATH, ignoring directories that are relative or part of
// the project. The program gets the same reduced PATH for what it starts.
func clipboard(ctx context.Context, argv []string, path, project string) ([]byte, error) {
	dirs := slices.DeleteFunc(filepath.SplitList(path), func(dir string) bool {
		return !filepath.IsAbs(dir) || dir == project || strings.HasPrefix(dir, project+string(filepath.Separator))
	})
	for _, dir := range dirs {
		program := filepath.Join(dir, argv[0])
		if info, err := os.Stat(program); err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 {
			continue
		}
		c := exec.CommandContext(ctx, program, argv[1:]...)
		c.Dir = filepath.Dir(program)
		c.Env = append(os.Environ(), "PATH="+strings.Join(dirs, string(filepath.ListSeparator)))
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", argv[0], err)
		}
		stop := context.AfterFunc(ctx, func() { out.Close() }) // a child process may keep it open
		data, err := io.ReadAll(io.LimitReader(out, maxImage+1))
		if len(data) > maxImage {
			err = fmt.Errorf("more than %d MB", maxImage>>20)
			out.Close() // it may still write
		}
		stop()
		if ended := c.Wait(); err == nil {
			err = ended
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, fmt.Errorf("%s has not answered in %s", argv[0], clipboardTime)
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", argv[0], err)
		}
		return data, nil
	}
	return nil, fmt.Errorf("%s is not installed", argv[0])
}

// imageFile writes a pasted image to a private file, which is removed when the program ends. What is broken is said at
// once, not when the prompt is sent.
func (a *app) imageFile(data []byte) (string, error) {
	if _, err := media.Fit(&llm.Media{MIME: "image/png", Data: data}); err != nil {
		return "", err
	} else if !isImage(data) {
		return "", errors.New("its content is a document")
	}
	a.pastes.Lock()
	defer a.pastes.Unlock()
	if a.pastes.dir == "" {
		dir, err := os.MkdirTemp("", "knack-paste-")
		if err != nil {
			return "", err
		}
		a.pastes.dir = dir
	}
	a.pastes.n++
	file := filepath.Join(a.pastes.dir, fmt.Sprintf("image-%d.png", a.pastes.n))
	return file, os.WriteFile(file, data, 0o600)
}

func isImage(data []byte) bool { return strings.HasPrefix(http.DetectContentType(data), "image/") }

// attachImage inserts a chip for an image into the prompt. The message sent mentions the file,
// which is then attached like any other: the rules and limits of the read tool apply.
func (a *app) attachImage(file string, size int) {
	a.prompt.Attach(editor.Chip{
		Label: fmt.Sprintf("image %s, %d KB", filepath.Base(file), (size+1023)/1024),
		Text:  " " + engine.Mention(file) + " ",
	})
}

// pasted inserts a paste. If it consists of the paths of images, as when files are dropped on the terminal, these
// are attached instead, except in a command.
func (a *app) pasted(text string) {
	if text == "" { // what terminals send for a clipboard without text, such as one with an image
		a.pasteImage()
		return
	}
	files := droppedFiles(text)
	sizes := make([]int, len(files))
	for i, file := range files {
		data, err := regular.Read(file, maxImage)
		if err != nil || !isImage(data) {
			files = nil
			break
		}
		sizes[i] = len(data)
	}
	if len(files) == 0 || strings.HasPrefix(a.prompt.Text(), "!") {
		a.prompt.Paste(text)
		return
	}
	for i, file := range files {
		a.attachImage(file, sizes[i])
	}
}

// maxDropped is the length of the longest text that may be a list of dropped files, in bytes.
const maxDropped = 16 << 10

// droppedFiles returns the files in a text if it consists only of absolute paths: written for a shell, with quotes
// or backslashes, or as file: addresses. Terminals write files that are dropped on them in these ways.
func droppedFiles(text string) (files []string) {
	if text = strings.TrimSpace(text); len(text) > maxDropped {
		return nil
	}
	if filepath.IsAbs(text) && !strings.ContainsAny(text, "\n\\'\"") {
		if _, err := os.Stat(text); err == nil {
			return []string{text} // not quoted; it may contain blanks
		}
	}
	for text != "" {
		var word string
		if word, text = shellWord(text); strings.HasPrefix(word, "file:") {
			u, err := url.Parse(word)
			if err != nil || u.Host != "" && u.Host != "localhost" {
				return nil
			}
			word = filepath.FromSlash(u.Path)
			if runtime.GOOS == "windows" {
				word = strings.TrimPrefix(word, `\`)
			}
		}
		if !filepath.IsAbs(word) {
			return nil
		}
		files = append(files, word)
	}
	return files
}

// shellWord splits the first word off a text, as a shell would. On Windows a backslash is part of a path.
func shellWord(text string) (word, rest string) {
	var b strings.Builder
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quote != '\'' && runtime.GOOS != "windows" && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == 0 && strings.IndexByte(" \t\r\n", c) >= 0:
			return b.String(), strings.TrimLeft(text[i:], " \t\r\n")
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}
