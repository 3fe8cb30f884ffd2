// Package git runs git in repositories that may be hostile: without the programs that their configuration names,
// without a pager, prompts and other machines, and within limits. It reads no configuration: what one would run, and so
// what has to be overridden, is judged by package permission, and the sandbox has the commands of a model.
//
// Most programs start with package engine.
package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/knack-agent/knack/internal/leaf/userdirs"
)

// A Setting is the name and the value of a setting of git that is overridden.
type Setting = [2]string

// Always returns the overrides for every repository.
func Always() []Setting {
	return []Setting{
		{"core.fsmonitor", "false"}, {"core.hooksPath", os.DevNull}, {"core.pager", "cat"}, {"protocol.ext.allow", "never"},
		{"safe.bareRepository", "explicit"}, {"log.showSignature", "false"}, {"submodule.recurse", "false"},
	}
}

// Env returns an environment in which git follows the overrides, after those that the environment has, and needs no
// terminal. nil: of the overrides alone.
func Env(environ []string, set []Setting) (env []string) {
	n := 0
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		switch name {
		case "GIT_CONFIG_COUNT":
			if c, err := strconv.Atoi(value); err == nil && c > 0 && c < 1000 {
				n = c
			}
			continue
		case "GIT_PAGER", "GIT_OPTIONAL_LOCKS", "GIT_NO_LAZY_FETCH", "GIT_EXTERNAL_DIFF", "GIT_CONFIG_PARAMETERS", "GIT_DIR",
			"GIT_WORK_TREE", "GIT_TERMINAL_PROMPT":
			continue
		}
		env = append(env, kv)
	}
	for _, s := range set {
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", n, s[0]), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", n, s[1]))
		n++
	}
	return append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(n), "GIT_PAGER=cat", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_LAZY_FETCH=1",
		"GIT_TERMINAL_PROMPT=0")
}

// Variables returns the names of the variables that [Env] sets, and GIT_ALLOW_PROTOCOL; a * at the end matches any
// suffix.
func Variables() []string {
	return []string{"GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_*", "GIT_CONFIG_VALUE_*", "GIT_PAGER", "GIT_OPTIONAL_LOCKS",
		"GIT_NO_LAZY_FETCH", "GIT_TERMINAL_PROMPT", "GIT_ALLOW_PROTOCOL"}
}

// Quietly returns options that keep git from running hooks and a file system monitor.
func Quietly() []string {
	return []string{"-c", "core.hooksPath=" + os.DevNull, "-c", "core.fsmonitor=false"}
}

// A Runner runs git for Knack itself, outside the sandbox. The zero Runner searches no directory, so it finds no git.
type Runner struct {
	Path string // where git is looked for, and what git gets as PATH: it must have no directory of a repository
	// Environ is an environment in the form of os.Environ. Git gets only the variables from it that locate the user's own
	// configuration. nil means the environment of the process.
	Environ []string
}

// Command returns a command that runs git in a directory with more variables, such as those of [Env]. It is an error if
// git is not installed.
func (r Runner) Command(ctx context.Context, dir string, env []string, args ...string) (*exec.Cmd, error) {
	name, err := program(r.Path)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, name, append([]string{"--no-pager", "--no-replace-objects"}, args...)...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = append(slices.Clone(env), "PATH="+r.Path, "LC_ALL=C", "GIT_ALLOW_PROTOCOL=none")
	for _, kv := range userdirs.Environ(r.Environ) {
		switch name, _, _ := strings.Cut(kv, "="); name {
		case userdirs.HomeVariable(), "XDG_CONFIG_HOME", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM",
			"SYSTEMROOT", "SystemRoot":
			cmd.Env = append(cmd.Env, kv)
		}
	}
	return cmd, nil
}

// timeout limits a question.
const timeout = 5 * time.Second

// Ask runs git for an answer about the repository in top, which need not have been judged: it follows the overrides of
// [Always], and fetches nothing. More than maxBytes bytes of output, or more than 5 s, are an error.
func (r Runner) Ask(ctx context.Context, top string, maxBytes int64, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd, err := r.Command(ctx, top, Env(nil, append([]Setting{{"protocol.allow", "never"}}, Always()...)), args...)
	if err != nil {
		return nil, err
	}
	cmd.Env = append(cmd.Env, "GIT_ALLOC_LIMIT=256m", "GIT_DISCOVERY_ACROSS_FILESYSTEM=1",
		"GIT_CEILING_DIRECTORIES="+filepath.Dir(top))
	out, errs := limitedBuffer{max: maxBytes}, limitedBuffer{max: 4 << 10}
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	switch {
	case out.exceeded:
		return nil, errors.New("git printed too much output")
	case ctx.Err() != nil:
		return nil, errors.New("git did not finish in time")
	case err != nil:
		line, _, _ := strings.Cut(strings.TrimSpace(errs.String()), "\n")
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, line)
	}
	return out.Bytes(), nil
}

// limitedBuffer is a buffer that fails once it would exceed max bytes; the failed write ends the program.
type limitedBuffer struct {
	bytes.Buffer
	max      int64
	exceeded bool
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if int64(b.Len()+len(p)) > b.max {
		b.exceeded = true
		return 0, errors.New("too much")
	}
	return b.Buffer.Write(p)
}

// program finds git in a PATH.
func program(list string) (string, error) {
	name := "git"
	if runtime.GOOS == "windows" {
		name = "git.exe"
	}
	for _, dir := range filepath.SplitList(list) {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() &&
			(runtime.GOOS == "windows" || info.Mode()&0o111 != 0) {
			return file, nil
		}
	}
	return "", errors.New("git is not installed")
}
