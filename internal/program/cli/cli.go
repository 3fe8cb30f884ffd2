// Package cli implements the command line: flags, subcommands, and what they print. It has one file per command. A
// conversation is an [engine.Session]; cli starts the front end that shows it: the screen, line mode, or the protocol
// of a host program.
//
// Results go to stdout; everything else goes to stderr. Errors read `knack: error: what
// failed: why`, then `knack: hint: what to type`.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/durable/local"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/project/worktree"
	"github.com/knack-agent/knack/internal/leaf/authority"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// exactly is cobra.ExactArgs with our exit code and a hint.
func exactly(n int, hint string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) != n {
			return engine.Usagef(hint, "%s takes %s, not %d", c.CommandPath(), plain.Count(n, "argument"), len(args))
		}
		return nil
	}
}

// Main runs the program with the process's arguments and returns its exit code.
func Main() int {
	lazyGC()
	authority.Trust(http.DefaultTransport.(*http.Transport), os.Getenv) // the base of every other client
	return run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}

// lazyGC lets the heap grow before the first garbage collection: most of what a start
// allocates stays in use, and most commands end before a collection would pay off. A
// conversation calls steadyGC once it is open, and a single prompt with its first answer. So does the
// second collection of any command, because with six times of what a large answer or file needs, a
// machine has no memory left.
func lazyGC() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(600)
	atCollection(func() { atCollection(steadyGC) })
}

// atCollection calls f after the next garbage collection, in another goroutine.
func atCollection(f func()) {
	runtime.AddCleanup(new([64]byte), func(int) { f() }, 0)
}

func steadyGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(100)
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return execute(ctx, rootCommand(args), stdin, stdout, stderr)
}

// execute runs a command and returns the exit code. Errors are written to stderr.
func execute(ctx context.Context, cmd *cobra.Command, stdin io.Reader, stdout, stderr io.Writer) int {
	cmd.SetIn(stdin)
	out := &resultWriter{w: stdout}
	if isTerminal(stdout) {
		// Front ends that draw use the terminal itself, see drawn.
		cmd.SetOut(&lockedWriter{Writer: plain.Writer(stdout)})
	} else {
		cmd.SetOut(out)
	}
	stderr = plain.Writer(stderr) // messages contain untrusted text: names of files, servers and models
	cmd.SetErr(stderr)
	var unknown error // what help was asked for does not exist
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(c *cobra.Command, args []string) {
		if unknown = noSuchCommand(c); unknown == nil {
			help(c, args)
		}
	})
	err := out.failure(cmp.Or(cmd.ExecuteContext(ctx), unknown))
	if err == nil {
		return 0
	}
	code := engine.ExitFailed
	err = exitError(err)
	var f *engine.Error
	if errors.As(err, &f) && f.Exit != 0 {
		code = f.Exit
	}
	if err.Error() != "" {
		// A message with several lines must not look like several messages.
		fmt.Fprintf(stderr, "knack: error: %s\n", strings.ReplaceAll(err.Error(), "\nknack:", "\n  knack:"))
	}
	if f != nil && f.Hint != "" {
		for hint := range strings.Lines(hintOf(cmd, f.Hint)) {
			fmt.Fprintf(stderr, "knack: hint: %s\n", strings.TrimSuffix(hint, "\n"))
		}
	}
	return int(code)
}

// A resultWriter writes the results of a command and keeps the first error, because most commands do not check each
// write: a script must learn that its file is incomplete. A closed pipe is not an error.
type resultWriter struct {
	w     io.Writer
	mu    sync.Mutex
	first error
}

func (r *resultWriter) Write(p []byte) (int, error) {
	n, err := r.w.Write(p)
	if err != nil && !readerGone(err) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.first = cmp.Or(r.first, err)
	}
	return n, err
}

// readerGone reports whether a write failed because nobody reads the pipe any more.
func readerGone(err error) bool {
	const brokenPipe, noData = syscall.Errno(109), syscall.Errno(232) // on Windows
	var n syscall.Errno
	errors.As(err, &n)
	return n == syscall.EPIPE || runtime.GOOS == "windows" && (n == brokenPipe || n == noData)
}

// failure returns the error of the command, or if that was successful or is about a write, why the result could
// not be written.
func (r *resultWriter) failure(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == nil || err != nil && !errors.Is(err, r.first) {
		return err
	}
	unwritten := &engine.Error{Err: fmt.Errorf("the result could not be written: %w", r.first)}
	if errors.Is(r.first, syscall.ENOSPC) {
		unwritten.Hint = "df -h"
	}
	return unwritten
}

// exitError rewords errors of the cobra library, and of a working directory that no longer
// exists.
func exitError(err error) error {
	var call *os.SyscallError
	if errors.As(err, &call) && call.Syscall == "getwd" {
		return &engine.Error{Err: fmt.Errorf("the working directory is gone: %w", call.Err), Hint: "cd DIR"}
	}
	if local.Damaged(err) {
		dir := plain.Line(engine.Env(nil).StateFile("batch"))
		return &engine.Error{Err: fmt.Errorf("the queue in %s is damaged: %w", dir, err), Hint: "mv " + dir + " " + dir +
			".damaged\nknack session list: what tasks have said and done is in their sessions"}
	}
	if known, ok := errors.AsType[*engine.Error](err); !ok || known.Hint == "" {
		if advice := authority.Advice(err); advice != "" && !strings.Contains(err.Error(), advice) {
			return &engine.Error{Err: err, Hint: advice}
		}
	}
	// "if any flags in the group [show yes] are set none of the others can be; [show yes] were all set"
	if group, ok := strings.CutPrefix(err.Error(), "if any flags in the group ["); ok {
		names, _, _ := strings.Cut(group, "]")
		return engine.Usagef("use one of them", "--%s cannot be used together",
			strings.Join(strings.Fields(names), ", --"))
	}
	return err
}

// commands lists the subcommands of knack.
func commands() []namedCommand {
	return []namedCommand{
		{"skill", skillCommand},
		{"eval", evalCommand},
		{"plugin", pluginCommand},
		{"sync", syncCommand},
		{"session", sessionCommand},
		{"why", whyCommand},
		{"models", modelsCommand},
		{"login", loginCommand},
		{"logout", logoutCommand},
		{"trust", trustCommand},
		{"mcp", mcpCommand},
		{"acp", acpCommand},
		{"sandbox", sandboxCommand},
		{"settings", settingsCommand},
		{"permission", permissionCommand},
		{"policy", policyCommand},
		{"audit", auditCommand},
		{"tool", toolCommand},
		{"agents", agentsCommand},
		{"attach", attachCommand},
		{"logs", logsCommand},
		{"stop", stopCommand},
		{"rm", rmCommand},
		{"batch", batchCommand},
		{"worker", workerCommand},
		{"schedule", scheduleCommand},
		{"loop", loopCommand},
		{"web", webCommand},
		{"doctor", doctorCommand},
		{"version", versionCommand},
		{"man", manCommand},
	}
}

type namedCommand struct {
	name  string
	build func() *cobra.Command
}

// needsAll reports whether arguments may list or complete any command, so that all of them
// must be built.
func needsAll(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		short := strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--")
		return a == "help" || a == "man" || a == "completion" || strings.HasPrefix(a, "__complete") ||
			strings.HasPrefix(a, "--help") || short && strings.Contains(a, "h")
	})
}

// rootCommand returns the knack command with the subcommands that args may use. It does not
// build the others: building a command registers its flags, and doing this for all takes
// longer than most commands run.
func rootCommand(args []string) *cobra.Command {
	root := &cobra.Command{
		Use:           "knack [flags] [prompt]",
		Short:         "Run Agent Skills with any model",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
	}
	var f runFlags
	f.register(root)
	f.completions(root)
	root.RunE = func(c *cobra.Command, args []string) error {
		if err := mistyped(c, args); err != nil {
			return err
		}
		if c.Flags().Changed("worktree") {
			leave, err := f.enterWorktree(c)
			if err != nil {
				return err
			}
			defer func() {
				if !f.stays { // otherwise the session works on in the worktree
					leave()
				}
			}()
		}
		f.tools = chosenTools(c, f.tools)
		if f.inputFormat == "text" { // a host may know tools that this version does not have
			if err := checkTools(f.tools); err != nil {
				return err
			}
		}
		if f.bg {
			return f.toBackground(c, args)
		}
		if f.listModels {
			models := modelsCommand()
			models.SetContext(c.Context())
			models.SetOut(c.OutOrStdout())
			models.SetErr(c.ErrOrStderr())
			return models.RunE(models, args)
		}
		f.pick = c.Flags().Changed("resume") && f.resume == ""
		if !f.printing && f.inputFormat == "text" && readsTerminal(c.InOrStdin()) {
			return f.talk(c, args)
		}
		f.printing = true
		if f.inputFormat == "text" {
			if err := otherProgram(c, args); err != nil {
				return err
			}
		}
		if f.pick {
			return engine.Usagef("knack session list", "-r (--resume) needs the ID of a session")
		}
		return f.print(c, args)
	}
	root.SetGlobalNormalizationFunc(kebab)
	root.SetFlagErrorFunc(flagError)
	all := needsAll(args)
	for _, c := range commands() {
		if all || slices.Contains(args, c.name) {
			root.AddCommand(c.build())
		}
	}
	if all {
		root.InitDefaultCompletionCmd()
	}
	checkArguments(root)
	help := helpCommand()
	root.SetHelpCommand(help)
	listTopics(root, help)
	args, problems, err := withoutUnknown(root, emptyResume(root, joinValue(joinValue(args, "--debug", debugTopics),
		"--worktree", worktree.Names)))
	f.problems = problems
	if err != nil {
		root.RunE = func(*cobra.Command, []string) error { return err }
	}
	root.SetArgs(append([]string{}, args...)) // not nil: cobra would use the arguments of the process
	return root
}

// released is the version of a released archive; .goreleaser.yaml sets it when it links the program.
var released string

// version returns the version of the program without a leading v: that of the archive, else that which `go install
// …@VERSION` asked for or the checkout has.
func version() string {
	if released != "" {
		return released
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return "devel"
}
