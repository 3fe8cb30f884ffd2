package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/durable/local"
	"github.com/knack-agent/knack/durable/schedule"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/subpath"
)

// Commands in the sandbox cannot open the queue, which has every project's prompts and results. So the program inside
// asks the one outside, which shows what is of its own project and changes nothing.

// An insideAnswer is what a command printed that was run for the program inside, and its exit code.
type insideAnswer struct {
	Out  string `json:"out"`
	Err  string `json:"err"`
	Exit int    `json:"exit"`
}

// thisProgram returns what commands in the sandbox have of the running program.
func thisProgram() sandbox.Program {
	exe, err := os.Executable()
	if err != nil {
		exe = ""
	}
	return sandbox.Program{Path: exe, Ask: answerInside}
}

// answerInside runs a command for the program inside: one of those that insideCommands has, with what is of the project
// in dir.
func answerInside(ctx context.Context, dir string, request []byte) []byte {
	var words []string
	if err := json.Unmarshal(request, &words); err != nil {
		words = nil // the usage error of no command
	}
	var out, errs bytes.Buffer
	root := insideCommands()
	root.SetArgs(append([]string{}, words...)) // nil would mean the arguments of this process
	code := execute(context.WithValue(ctx, projectKey{}, dir), root, strings.NewReader(""), &out, &errs)
	answer, err := json.Marshal(insideAnswer{out.String(), errs.String(), code})
	if err != nil {
		return nil
	}
	return answer
}

// insideCommands is the part of the command line that the program inside may ask for.
func insideCommands() *cobra.Command {
	root := &cobra.Command{Use: "knack", SilenceErrors: true, SilenceUsage: true, Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			return engine.Usagef("knack schedule list", "no command was asked for")
		}}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	for name, commands := range map[string][]*cobra.Command{
		"schedule": {scheduleListCommand(), scheduleHistoryCommand()}, "batch": {batchStatusCommand()},
	} {
		c := &cobra.Command{Use: name, Args: noArguments}
		c.AddCommand(commands...)
		root.AddCommand(c)
	}
	return root
}

type projectKey struct{}

// projectOf returns the directory to which a command of the program inside is limited; "": it was not inside.
func projectOf(ctx context.Context) string {
	dir, _ := ctx.Value(projectKey{}).(string)
	return dir
}

// ofProject reports whether a command may show jobs that were started in dir: it may unless it was started inside a
// session of another project.
func ofProject(ctx context.Context, dir string) bool {
	project := projectOf(ctx)
	return project == "" || subpath.Contains(realPath(project), dir)
}

// schedules returns the schedules that a command may show.
func schedules(ctx context.Context, q *local.Queue) ([]schedule.Schedule, error) {
	all, err := q.Schedules().All(ctx)
	return slices.DeleteFunc(all, func(s schedule.Schedule) bool { return !ofProject(ctx, s.Dir) }), err
}

// askable makes a command that shows what is in the queue ask the program outside, where it runs in a sandbox.
func askable(c *cobra.Command) *cobra.Command {
	own := c.RunE
	c.RunE = func(c *cobra.Command, args []string) error {
		if !inSandbox() || projectOf(c.Context()) != "" {
			return own(c, args)
		}
		return askOutside(c, os.Getenv(sandbox.AskVariable), args)
	}
	return c
}

// inSandbox reports whether this program runs in a sandbox of one that can be asked.
func inSandbox() bool { return os.Getenv(sandbox.AskVariable) != "" }

func askOutside(c *cobra.Command, address string, args []string) error {
	words := strings.Fields(c.CommandPath())[1:]
	c.Flags().Visit(func(f *pflag.Flag) { words = append(words, "--"+f.Name+"="+f.Value.String()) })
	request, err := json.Marshal(append(append(words, "--"), args...))
	if err != nil {
		return err
	}
	answer, err := postOutside(c.Context(), address, request)
	if err != nil {
		return &engine.Error{Err: fmt.Errorf("the program that runs this command cannot be asked: %w", err),
			Hint: c.CommandPath() + ", in a terminal"}
	}
	io.WriteString(c.OutOrStdout(), answer.Out)
	io.WriteString(c.ErrOrStderr(), answer.Err)
	if answer.Exit != 0 {
		return &engine.Error{Err: errors.New(""), Exit: engine.ExitCode(answer.Exit)}
	}
	return nil
}

func postOutside(ctx context.Context, address string, request []byte) (answer insideAnswer, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(request))
	if err != nil {
		return answer, err
	}
	client := http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return answer, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return answer, fmt.Errorf("it answers %s", resp.Status)
	}
	return answer, json.NewDecoder(resp.Body).Decode(&answer)
}
