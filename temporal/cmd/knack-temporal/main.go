// Command knack-temporal runs batches and schedules of Knack on many machines, on a Temporal server.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/log"

	_ "github.com/knack-agent/knack/confine/sandbox/launcher"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/program/cli"
	"github.com/knack-agent/knack/temporal/queue"
)

func main() { os.Exit(run()) }

func run() int {
	at := queue.Server{Address: os.Getenv("TEMPORAL_ADDRESS"), Namespace: os.Getenv("TEMPORAL_NAMESPACE"),
		APIKey: os.Getenv("TEMPORAL_API_KEY")}
	o := queue.Options{Store: os.Getenv("KNACK_TEMPORAL_STORE")}
	slots := -1
	root := &cobra.Command{
		Use:   "knack-temporal",
		Short: "Run batches and schedules of Knack on many machines, on a Temporal server",
		Long: `The commands batch and worker are those of knack, on a Temporal server instead of a
file of this machine: any number of machines run "knack-temporal worker", and share the
tasks. All need the same directories at the same places, and a directory that all see for
long texts (--store). The server is named by --address or TEMPORAL_ADDRESS; for Temporal
Cloud, TEMPORAL_NAMESPACE and TEMPORAL_API_KEY.`,
	}
	fs := root.PersistentFlags()
	fs.StringVar(&at.Address, "address", cmp.Or(at.Address, "127.0.0.1:7233"), "the server, `HOST:PORT`")
	fs.StringVar(&at.Namespace, "namespace", cmp.Or(at.Namespace, "default"), "the namespace")
	fs.BoolVar(&at.TLS, "tls", false, "encrypt the connection")
	fs.StringVar(&o.Store, "store", o.Store, "the `DIR` that all machines see; default: one of this machine")
	fs.IntVar(&slots, "here", -1, "how many tasks of a batch run on this machine; 0: it submits and watches; "+
		"default: --jobs")
	fs.DurationVar(&o.Heartbeat, "dead-after", 30*time.Second, "after which `TIME` a worker that says nothing is dead")
	open := func(ctx context.Context, jobs int) (*queue.Queue, error) {
		o := o
		if o.Slots = slots; slots < 0 {
			o.Slots = jobs
		}
		if o.Store == "" {
			state := engine.Env(nil).StateFile("batch")
			if state == "" {
				return nil, engine.ErrNoState("temporal")
			}
			o.Store = filepath.Join(state, "temporal")
		}
		at := at
		at.Log = log.NewStructuredLogger(slog.New(slog.NewTextHandler(os.Stderr,
			&slog.HandlerOptions{Level: slog.LevelError})))
		q, err := queue.Open(ctx, at, o)
		if errors.Is(err, queue.ErrPlain) {
			return nil, &engine.Error{Err: err, Hint: "knack-temporal --tls, or an ssh tunnel to 127.0.0.1",
				Exit: engine.ExitUsage}
		}
		if err != nil {
			return nil, &engine.Error{Err: err, Hint: "temporal server start-dev, or --address"}
		}
		return q, nil
	}
	return cli.MachinesMain(root, scheduleCommand(open), func(ctx context.Context, jobs int) (cli.Machines, error) {
		return open(ctx, jobs)
	})
}

func scheduleCommand(open func(context.Context, int) (*queue.Queue, error)) *cobra.Command {
	c := &cobra.Command{Use: "schedule", Short: "Run prompts at times, as Temporal Schedules",
		Long: `Schedules of a Temporal server. A running "knack-temporal worker" submits their runs, which
are tasks of the batch schedule-ID.`}
	c.AddCommand(&cobra.Command{Use: "list", Short: "List the schedules", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			q, err := open(c.Context(), 0)
			if err != nil {
				return err
			}
			defer q.Close()
			all, err := q.Schedules(c.Context())
			if err != nil {
				return err
			}
			for _, s := range all {
				printSchedule(c.OutOrStdout(), s)
			}
			return nil
		}})
	for name, short := range map[string]string{"pause": "Start no more runs of a schedule",
		"resume": "Let a paused schedule go on",
		"run":    "Run a schedule now", "remove": "Remove a schedule; its runs remain"} {
		c.AddCommand(&cobra.Command{Use: name + " ID", Short: short, Args: cobra.ExactArgs(1),
			RunE: func(c *cobra.Command, args []string) error {
				q, err := open(c.Context(), 0)
				if err != nil {
					return err
				}
				defer q.Close()
				return q.ChangeSchedule(c.Context(), args[0], name)
			}})
	}
	return c
}

func printSchedule(w io.Writer, s queue.ScheduleState) {
	next := "never"
	switch {
	case s.Paused:
		next = "paused"
	case !s.Next.IsZero():
		next = s.Next.Format(time.RFC3339)
	}
	fmt.Fprintf(w, "%s  next %s  %s\n", plain.Line(s.ID), next, plain.Line(s.Name))
}
