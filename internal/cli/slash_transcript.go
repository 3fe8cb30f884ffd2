package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/plain"
	"github.com/knack-agent/knack/internal/transcript"
	"github.com/knack-agent/knack/llm"
	"github.com/knack-agent/knack/session"
)

func (s *sessionRun) slashExport(_ context.Context, file string, say func(string)) (string, error) {
	if len(s.log.Branch()) == 0 {
		return "", errNothingSaid
	}
	path, f, err := exportTo(s.log, "", file)
	if err != nil {
		return "", &engine.Error{Err: err, Hint: "/export FILE.html, FILE.md or FILE.jsonl", Exit: engine.ExitUsage}
	}
	if path == "-" {
		return "", errors.New("/export writes a file: knack session export ID -o - writes to standard output")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(s.dir, path)
	}
	if err := exportSession(s.log, f, path, false); err != nil {
		return "", err
	}
	say("written, for you alone to read: " + plain.Line(path))
	return "", nil
}

var errNothingSaid = errors.New("nothing was said in this session yet")

// shareTime bounds an upload.
const shareTime = 2 * time.Minute

// slashShare uploads a page as a secret gist by the person's own gh, once they
// said yes to that.
func (s *sessionRun) slashShare(ctx context.Context, _ string, say func(string)) (string, error) {
	if len(s.log.Branch()) == 0 {
		return "", errNothingSaid
	}
	gh, err := exec.LookPath("gh")
	if err != nil {
		return "", &engine.Error{Err: errors.New("/share needs the program gh, which is not there"), Hint: "/export writes a file that you can send"}
	}
	if s.who == nil {
		return "", &engine.Error{Err: errors.New("nothing was shared: there is nobody to ask"), Hint: "knack session export " + s.log.ID(), Exit: engine.ExitRefused}
	}
	dir, err := os.MkdirTemp("", "knack-share-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "knack-"+s.log.ID()+".html")
	if err := exportSession(s.log, transcript.HTML, path, false); err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	agreed, err := s.agrees(ctx, fmt.Sprintf("Upload the whole conversation (%d kB: what was said, read and run) to GitHub, as a secret gist of yours? Whoever has its address can read it.", (info.Size()+999)/1000), "yes, upload it")
	if err != nil {
		return "", err
	}
	if !agreed {
		say("nothing was shared")
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, shareTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, gh, "gist", "create", path) // secret, unless it is told otherwise
	cmd.Env = append(os.Environ(), "GH_PROMPT_DISABLED=1")
	cmd.Dir = dir // not the project's, whose files could speak to it
	cmd.WaitDelay = time.Second
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("gh: %w: %s", err, plain.Line(strings.TrimSpace(stderr.String())))
	}
	say("shared: " + plain.Line(strings.TrimSpace(string(out))))
	return "", nil
}

// slashCopy puts the last answer on the clipboard, or says it where nobody
// sits at a terminal.
func (s *sessionRun) slashCopy(ctx context.Context, _ string, say func(string)) (string, error) {
	text := ""
	for _, e := range s.log.Branch() {
		if e.Answer != nil {
			text = cmp.Or(llm.JoinText(e.Answer.Message.Parts, "\n\n"), text)
		}
	}
	if text == "" {
		return "", errors.New("there is no answer to copy yet")
	}
	if s.who == nil {
		say(text)
		return "", nil
	}
	for _, argv := range clipboards() {
		program, err := exec.LookPath(argv[0])
		if err != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		cmd := exec.CommandContext(ctx, program, argv[1:]...)
		cmd.Stdin = strings.NewReader(text)
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("%s: %w", argv[0], err)
		}
		say(fmt.Sprintf("copied, %d characters", len([]rune(text))))
		return "", nil
	}
	return "", &engine.Error{Err: errors.New("there is no program for the clipboard here"), Hint: "install wl-copy, xclip or xsel; or /export FILE.md"}
}

// clipboards are the programs that fill the clipboard of where we are.
func clipboards() [][]string {
	var all [][]string
	if os.Getenv("WAYLAND_DISPLAY") != "" {
		all = append(all, []string{"wl-copy"})
	}
	if os.Getenv("DISPLAY") != "" {
		all = append(all, []string{"xclip", "-selection", "clipboard"}, []string{"xsel", "--clipboard", "--input"})
	}
	return append(all, []string{"pbcopy"}, []string{"clip.exe"}) // macOS; Windows, and WSL
}

func (s *sessionRun) slashClone(ctx context.Context, _ string, say func(string)) (string, error) {
	branch := s.log.Branch()
	if len(branch) == 0 {
		return "", errNothingSaid
	}
	return "", s.branchOff(ctx, branch, say)
}

// branchOff goes on in a new session that begins with entries of this one.
func (s *sessionRun) branchOff(ctx context.Context, branch []session.Entry, say func(string)) error {
	log, err := s.create(s.log.ID())
	if err != nil {
		return err
	}
	if err := errors.Join(log.Graft(branch), log.Sync()); err != nil {
		return errors.Join(err, log.Close())
	}
	was := s.log.ID()
	if err := s.begin(ctx, log, "resume"); err != nil {
		return err
	}
	say(fmt.Sprintf("on with %s, %s; %s stays as it was", log.ID(), plain.Count(log.State().Turns, "turn"), was))
	return nil
}

// saidBy is what a person said in an entry, or called; "": nothing.
func saidBy(e session.Entry) string {
	switch {
	case e.User != nil:
		return cmp.Or(e.User.Typed, llm.JoinText(e.User.Parts, "\n"), "(an attachment)")
	case e.Activation != nil && e.Activation.By == "user":
		return strings.TrimSpace("/" + e.Activation.Skill + " " + e.Activation.Args)
	}
	return ""
}

func (s *sessionRun) slashFork(ctx context.Context, at string, say func(string)) (string, error) {
	branch := s.log.Branch()
	if at == "" {
		for _, e := range branch {
			if text := saidBy(e); text != "" {
				say(fmt.Sprintf("%5d  %s", e.ID, oneLine(text, 70)))
			}
		}
		say("/fork N begins a session with what was before message N")
		return "", nil
	}
	for i, e := range branch {
		if text := saidBy(e); text != "" && strconv.Itoa(e.ID) == at {
			if err := s.branchOff(ctx, branch[:i], say); err != nil {
				return "", err
			}
			say("what you said there:\n" + text)
			return "", nil
		}
	}
	return "", &engine.Error{Err: fmt.Errorf("%s is no message of yours on this branch", plain.Line(at)), Hint: "/fork lists them"}
}

// slashTree shows what the person said on all branches, or moves to an entry:
// the next message goes on from there. A message of the person's own is taken
// back, to be said anew.
func (s *sessionRun) slashTree(_ context.Context, at string, say func(string)) (string, error) {
	all, branch := s.log.Entries(), s.log.Branch()
	if len(all) == 0 {
		return "", errNothingSaid
	}
	if at == "" {
		on := map[int]bool{}
		for _, e := range branch {
			on[e.ID] = true
		}
		for _, e := range all {
			text := saidBy(e)
			if text == "" {
				continue
			}
			mark := " "
			if on[e.ID] {
				mark = "*"
			}
			from := ""
			if e.Parent != e.ID-1 {
				from = fmt.Sprintf("  (from %d)", e.Parent)
			}
			say(fmt.Sprintf("%s%5d  %s%s", mark, e.ID, oneLine(text, 70), from))
		}
		say("* is this branch; /tree N goes back to before message N, or to entry N")
		return "", nil
	}
	n, err := strconv.Atoi(at)
	if err != nil || n < 1 {
		return "", &engine.Error{Err: fmt.Errorf("%q is not the number of an entry", at), Hint: "/tree lists them", Exit: engine.ExitUsage}
	}
	text, to := "", n
	for _, e := range all {
		if e.ID == n {
			if text = saidBy(e); text != "" {
				to = e.Parent
			}
		}
	}
	if err := s.log.Move(to); err != nil {
		return "", &engine.Error{Err: err, Hint: "/tree lists them"}
	}
	say(fmt.Sprintf("at entry %d; what came after it stays on its branch", to))
	if text != "" {
		say("what you said there:\n" + text)
	}
	return "", nil
}
