package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/outfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/sources"
)

func batchReportCommand() *cobra.Command {
	out, force := "", false
	c := &cobra.Command{
		Use: "report BATCH", Short: "Write a page about a batch: outcome, time, cost, what is not certain",
		Args: exactly(1, "knack batch status"),
		RunE: withQueue(func(c *cobra.Command, q batch.Queue, args []string) error {
			x, err := findBatch(c.Context(), q, args[0])
			if err != nil {
				return err
			}
			all, err := runs(c.Context(), q, batch.Filter{Batch: x.Batch.ID, Rows: true})
			if err != nil {
				return err
			}
			page := batch.Report(*x.Batch, x.Totals, all)
			if out == "-" {
				_, err := c.OutOrStdout().Write(page)
				return err
			}
			path := cmp.Or(out, "knack-"+x.Batch.ID+".html")
			err = outfile.Write(sources.Root("."), path, page, 0o600, force)
			if errors.Is(err, os.ErrExist) {
				return engine.Usagef("knack batch report "+args[0]+" --force -o "+plain.Line(path), "%s exists", path)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), plain.Line(path))
			return err
		}),
	}
	c.Flags().StringVarP(&out, "output", "o", "", "the file; - is stdout; default: knack-BATCH.html")
	c.Flags().BoolVar(&force, "force", false, "replace an existing file")
	return c
}
