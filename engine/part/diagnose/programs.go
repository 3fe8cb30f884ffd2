package diagnose

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/run/gate"
)

// runnable returns an error if a program is one of the workspace, which a model could change: nobody is asked before it
// runs.
func runnable(args []string, in place) error { return gate.OnlyApproved(args, in.Workspace.Dir(), "") }

// format runs the formatter for a file, and returns what the model must know.
func (l *live) format(ctx context.Context, in place, path string) string {
	args := l.formatters[extension(filepath.Ext(path))]
	if args == nil {
		return ""
	}
	if err := runnable(args, in); err != nil {
		return "The formatter " + plain.Line(args[0]) + " did not run: " + plain.Line(err.Error())
	}
	was, err := contents(ctx, in.Workspace, path)
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, formatTime)
	defer cancel()
	var out head
	exit, err := in.Workspace.Run(ctx, workspace.Command{Args: append(slices.Clone(args), path), Output: &out,
		Allow: in.allow, Limits: []workspace.Limit{{NoNetwork: true}}})
	if err == nil && exit.Code != 0 {
		err = errors.New(out.why(exit.Code))
	}
	if err != nil {
		return "The formatter " + plain.Line(args[0]) + " failed: " + plain.Line(err.Error())
	}
	if is, err := contents(ctx, in.Workspace, path); err != nil || is == was {
		return ""
	}
	return "The formatter " + plain.Line(args[0]) + " changed the file. Read it again before you edit it."
}

// A head keeps the beginning of what a program prints.
type head struct{ text []byte }

func (t *head) Write(p []byte) (int, error) {
	t.text = append(t.text, p[:min(len(p), max(maxText-len(t.text), 0))]...)
	return len(p), nil
}

func (t *head) why(code int) string {
	why := fmt.Sprintf("it ended with code %d", code)
	if said := strings.Join(strings.Fields(strings.ToValidUTF8(string(t.text), "")), " "); said != "" {
		why += ": " + strings.TrimSuffix(said, ".")
	}
	return why
}
