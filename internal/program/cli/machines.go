package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/local"
	"github.com/knack-agent/knack/durable/schedule"
	"github.com/knack-agent/knack/internal/leaf/plain"
)

// Machines is a queue of many machines.
type Machines interface {
	batch.Queue
	// AddSchedule adds a schedule that is complete.
	AddSchedule(ctx context.Context, s schedule.Schedule) error
	// RunSchedules lets this process run what schedules start, until stop is called.
	RunSchedules(ctx context.Context) (stop func(), err error)
}

// OpenMachines opens a queue of many machines. jobs is how many runs of a batch this process runs at a time; 0: none.
type OpenMachines func(ctx context.Context, jobs int) (Machines, error)

type machinesKey struct{}

func machinesOf(ctx context.Context) OpenMachines {
	open, _ := ctx.Value(machinesKey{}).(OpenMachines)
	return open
}

// MachinesMain is the main func of a program whose commands batch, worker and schedule add, which it adds to root, use
// another queue than that of this machine. It returns the exit code.
func MachinesMain(root, schedules *cobra.Command, open OpenMachines) int {
	lazyGC()
	root.SilenceErrors, root.SilenceUsage, root.Version = true, true, version()
	schedules.AddCommand(scheduleAddCommand())
	root.AddCommand(batchCommand(), workerCommand(), schedules)
	rename(root)
	root.SetGlobalNormalizationFunc(kebab)
	root.SetFlagErrorFunc(flagError)
	ctx := context.WithValue(context.Background(), machinesKey{}, open)
	return execute(ctx, root, os.Stdin, os.Stdout, os.Stderr)
}

// shared returns the expression for commands of knack that the program has, too.
var shared = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bknack (batch|worker|schedule)\b`) })

// rename makes help texts name the program itself where they name commands of knack that it has too.
func rename(c *cobra.Command) {
	for _, text := range []*string{&c.Short, &c.Long, &c.Example} {
		*text = shared().ReplaceAllString(*text, c.Root().Name()+" $1")
	}
	for _, sub := range c.Commands() {
		rename(sub)
	}
}

// hintOf returns a hint as it can be typed: with the name of this program, and with the flags that name its server.
func hintOf(root *cobra.Command, hint string) string {
	if machinesOf(root.Context()) == nil {
		return hint
	}
	name := root.Name()
	root.PersistentFlags().VisitAll(func(f *pflag.Flag) {
		switch {
		case !f.Changed:
		case f.Value.Type() == "bool":
			name += " --" + f.Name
		default:
			name += " --" + f.Name + " " + plain.Line(f.Value.String())
		}
	})
	return shared().ReplaceAllString(hint, strings.ReplaceAll(name, "$", "$$")+" $1")
}

// batchQueue opens the queue of batches: that of this machine, unless the program has another.
func batchQueue(ctx context.Context, jobs int) (batch.Queue, error) {
	if open := machinesOf(ctx); open != nil {
		return open(ctx, jobs)
	}
	return openQueue(ctx)
}

// runSchedules starts the runs of schedules when they are due, until stop is called.
func runSchedules(ctx context.Context, q batch.Queue, stderr io.Writer) (stop func(), err error) {
	if m, ok := q.(Machines); ok {
		return m.RunSchedules(ctx)
	}
	return driveSchedules(ctx, q.(*local.Queue), stderr) // batchQueue returns no other
}

func addToMachines(c *cobra.Command, open OpenMachines, s schedule.Schedule) error {
	s, err := complete(s)
	if err != nil {
		return err
	}
	q, err := open(c.Context(), 0)
	if err != nil {
		return err
	}
	defer q.Close()
	if err := q.AddSchedule(c.Context(), s); err != nil {
		return err
	}
	fmt.Fprintf(c.OutOrStdout(), "%s  %s\n", s.ID, ruleLine(s))
	return nil
}
