package cli

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// A service keeps `knack worker` running while the user is logged in.
type service struct {
	program string
	file    string // the unit or the property list
	content string
	start   [][]string // commands that start it
	stop    [][]string
	after   string // what the user may want to do
}

const launchLabel = "dev.knack.worker"

func scheduleInstallCommand() *cobra.Command {
	jobs := defaultJobs
	yes, show, remove := false, false, false
	c := &cobra.Command{
		Use:   "install",
		Short: "Set up a service of this user that runs schedules and batches",
		Long: `Set up a service of this user that runs "knack worker": a systemd user unit, or a launchd
agent on macOS. What would be written is shown, and you are asked. It is not run as root.`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := newService(runtime.GOOS, jobs)
			if err != nil {
				return err
			}
			if remove {
				return s.remove(c)
			}
			return s.install(c, yes, show)
		},
	}
	fs := c.Flags()
	fs.IntVar(&jobs, "jobs", defaultJobs, "how many runs at a time")
	fs.BoolVarP(&yes, "yes", "y", false, "install without being asked")
	fs.BoolVar(&show, "show", false, "only show what would be written and run")
	fs.BoolVar(&remove, "remove", false, "stop and remove the service")
	c.MarkFlagsMutuallyExclusive("yes", "show", "remove")
	return c
}

// newService returns the service for an operating system.
func newService(system string, jobs int) (service, error) {
	var env engine.Env
	if jobs < 1 || jobs > 1000 {
		return service{}, engine.Usagef("knack schedule install --jobs 4", "--jobs is 1 to 1000")
	}
	if env.StateDir() == "" {
		return service{}, engine.ErrNoState("the service")
	}
	program, err := ownProgram()
	if err != nil {
		return service{}, err
	}
	args := []string{program, "worker", "--jobs", strconv.Itoa(jobs)}
	// What decides where files are, and which programs runs find. Keys of providers are not copied into a file.
	var vars [][2]string
	for _, name := range []string{"PATH", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "LANG"} {
		if v := os.Getenv(name); v != "" {
			vars = append(vars, [2]string{name, v})
		}
	}
	var s service
	switch system {
	case "linux":
		s = systemdService(args, vars, env)
	case "darwin":
		s = launchdService(args, vars, env)
	}
	if s.program = program; s.file != "" {
		return s, nil
	}
	return s, &engine.Error{Err: fmt.Errorf("there is no service for %s", system),
		Hint: "start knack worker --jobs 4 when you log in", Exit: engine.ExitFailed}
}

// ownProgram returns the path by which this program was started, so that an update of the program is found there.
func ownProgram() (string, error) {
	path, err := exec.LookPath(os.Args[0])
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		path, err = os.Executable()
	}
	return path, err
}

func systemdService(args []string, vars [][2]string, env engine.Env) service {
	quote := func(s string) string { // as systemd reads words: % and $ are expanded in quotes, too
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$", "\n", `\n`).Replace(s) + `"`
	}
	var b strings.Builder
	b.WriteString("# Written by: knack schedule install\n[Unit]\nDescription=Knack: runs schedules and " +
		"batches\n\n[Service]\n")
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = quote(a)
	}
	words[0] = strings.ReplaceAll(words[0], "$$", "$") // in the path of the program, a dollar sign means itself
	fmt.Fprintf(&b, "ExecStart=%s\n", strings.Join(words, " "))
	for _, v := range vars {
		// In Environment= a dollar sign means itself.
		fmt.Fprintf(&b, "Environment=%s\n", strings.ReplaceAll(quote(v[0]+"="+v[1]), "$$", "$"))
	}
	b.WriteString("Restart=on-failure\nRestartSec=10\nKillSignal=SIGINT\nTimeoutStopSec=10min\n" +
		"\n[Install]\nWantedBy=default.target\n")
	const unit = "knack-worker.service"
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(env.Home(), ".config")
	}
	return service{
		file: filepath.Join(dir, "systemd", "user", unit), content: b.String(),
		start: [][]string{{"systemctl", "--user", "daemon-reload"}, {"systemctl", "--user", "enable", "--now", unit},
			{"systemctl", "--user", "restart", unit}},
		stop:  [][]string{{"systemctl", "--user", "disable", "--now", unit}},
		after: "It runs while you are logged in; loginctl enable-linger lets it run always.",
	}
}

func launchdService(args []string, vars [][2]string, env engine.Env) service {
	text := func(s string) string {
		var b bytes.Buffer
		_ = xml.EscapeText(&b, []byte(s)) // a buffer does not fail
		return b.String()
	}
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
	<key>Label</key><string>` + launchLabel + `</string>
	<key>ProgramArguments</key>
	<array>
`)
	for _, a := range args {
		fmt.Fprintf(&b, "\t\t<string>%s</string>\n", text(a))
	}
	b.WriteString("\t</array>\n\t<key>EnvironmentVariables</key>\n\t<dict>\n")
	for _, v := range vars {
		fmt.Fprintf(&b, "\t\t<key>%s</key><string>%s</string>\n", v[0], text(v[1]))
	}
	log := env.StateFile("worker.log")
	fmt.Fprintf(&b, "\t</dict>\n\t<key>StandardErrorPath</key><string>%s</string>\n", text(log))
	b.WriteString("\t<key>RunAtLoad</key><true/>\n\t<key>KeepAlive</key><true/>\n</dict>\n</plist>\n")
	file := filepath.Join(env.Home(), "Library", "LaunchAgents", launchLabel+".plist")
	domain := "gui/" + strconv.Itoa(os.Getuid())
	return service{file: file, content: b.String(), start: [][]string{{"launchctl", "bootstrap", domain, file}},
		stop: [][]string{{"launchctl", "bootout", domain + "/" + launchLabel}}, after: "It runs while you are logged in."}
}

func lines(commands [][]string) string {
	var b strings.Builder
	for _, c := range commands {
		fmt.Fprintf(&b, "  %s\n", plain.Line(strings.Join(c, " ")))
	}
	return b.String()
}

func (s service) install(c *cobra.Command, yes, show bool) error {
	old, err := os.ReadFile(s.file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	w := c.OutOrStdout()
	what := "would be written"
	switch {
	case string(old) == s.content:
		what = "is there already"
	case old != nil:
		what = "would be replaced by this"
	}
	fmt.Fprintf(w, "%s %s:\n\n%s\nThen:\n%s", plain.Line(s.file), what, plain.Text(s.content), lines(s.start))
	fmt.Fprintf(w, "\n%s\nIt does not see keys in variables of your shell; knack login stores one for it.\n", s.after)
	if strings.HasPrefix(s.program, filepath.Clean(os.TempDir())+string(filepath.Separator)) {
		fmt.Fprintf(c.ErrOrStderr(), "knack: warn: %s is in the directory for temporary files, and will be gone\n",
			plain.Line(s.program))
	}
	if show {
		return nil
	}
	if !yes {
		ok, err := confirm(c, "\nInstall it?", "knack schedule install --yes installs what is shown")
		if err != nil || !ok {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(s.file), 0o755); err != nil {
		return err
	}
	if err := atomicfile.Write(s.file, []byte(s.content), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "knack: wrote %s\n", plain.Line(s.file))
	return s.call(c, s.start)
}

func (s service) remove(c *cobra.Command) error {
	if _, err := os.Lstat(s.file); errors.Is(err, os.ErrNotExist) {
		return &engine.Error{Err: errors.New("the service is not installed"), Hint: "knack schedule install",
			Exit: engine.ExitFailed}
	}
	called := s.call(c, s.stop) // without systemd the file is removed all the same
	if err := os.Remove(s.file); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "knack: removed %s\n", plain.Line(s.file))
	return called
}

// call runs the commands of the service's manager.
func (s service) call(c *cobra.Command, commands [][]string) error {
	for i, words := range commands {
		run := exec.CommandContext(c.Context(), words[0], words[1:]...)
		run.Stdout, run.Stderr = c.ErrOrStderr(), c.ErrOrStderr()
		if err := run.Run(); err != nil {
			return &engine.Error{Err: fmt.Errorf("%s: %w", strings.Join(words, " "), err),
				Hint: "run later:\n" + strings.TrimRight(lines(commands[i:]), "\n"), Exit: engine.ExitFailed}
		}
	}
	return nil
}
