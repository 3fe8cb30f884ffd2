package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/knack-agent/knack/durable/batch"
	"github.com/knack-agent/knack/durable/work"
	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/engine/part"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/program/line"
	"github.com/knack-agent/knack/internal/program/show"
	"github.com/knack-agent/knack/run/session"
)

// findBatch returns the batch that an ID, the beginning of one, or a name means; of several with a name, the last.
func findBatch(ctx context.Context, q batch.Queue, id string) (batch.Change, error) {
	all, err := batches(ctx, q)
	if err != nil {
		return batch.Change{}, err
	}
	var found []batch.Change
	for _, c := range all {
		if c.Batch.ID == id {
			return c, nil
		}
		if strings.HasPrefix(c.Batch.ID, id) && id != "" || c.Batch.Name == id {
			found = append(found, c)
		}
	}
	if len(found) > 0 && (len(found) == 1 || found[0].Batch.Name == id) {
		return found[len(found)-1], nil
	}
	if len(found) > 1 {
		return batch.Change{}, engine.Usagef("knack batch status", "%d batches begin with %s", len(found), id)
	}
	return batch.Change{}, &engine.Error{Err: fmt.Errorf("there is no batch %s", id), Hint: "knack batch status",
		Exit: engine.ExitUsage}
}

// findRuns returns the runs that arguments mean: a batch, a batch and tasks of it, or IDs of runs.
func findRuns(ctx context.Context, q batch.Queue, args []string, rows bool) (b batch.Batch, found []batch.Run,
	whole bool, err error) {
	c, err := findBatch(ctx, q, args[0])
	if err != nil {
		all, e := runs(ctx, q, batch.Filter{Run: args[0], Rows: rows})
		if e != nil || len(all) == 0 || len(args) > 1 {
			return b, nil, false, cmp.Or(e, err)
		}
		c, err = findBatch(ctx, q, all[0].Batch)
		if err != nil {
			return b, nil, false, err
		}
		return *c.Batch, all, false, nil
	}
	all, err := runs(ctx, q, batch.Filter{Batch: c.Batch.ID, Rows: rows})
	if err != nil || len(args) == 1 {
		return *c.Batch, all, true, err
	}
	for _, key := range args[1:] {
		i := slices.IndexFunc(all, func(r batch.Run) bool { return r.Key == key || r.ID == key })
		if i < 0 {
			return b, nil, false, engine.Usagef("knack batch status "+c.Batch.ID, "the batch %s has no task %q", c.Batch.ID, key)
		}
		found = append(found, all[i])
	}
	return *c.Batch, found, false, nil
}

// withQueue runs a command on the queue.
func withQueue(f func(c *cobra.Command, q batch.Queue, args []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		q, err := batchQueue(c.Context(), 0)
		if err != nil {
			return err
		}
		defer q.Close()
		return f(c, q, args)
	}
}

func atLeastOne(hint string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return engine.Usagef(hint, "%s needs the ID of a batch or run", c.CommandPath())
		}
		return nil
	}
}

// batchStatus is what `knack batch status --json` prints for a batch.
type batchStatus struct {
	batch.Batch
	batch.Totals
	Results []batchResult `json:"results,omitempty"`
}

func batchStatusCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use: "status [BATCH]", Short: "List the batches, or the tasks of one", Args: atMostOne,
		RunE: withQueue(func(c *cobra.Command, q batch.Queue, args []string) error {
			if len(args) == 1 {
				return showBatch(c, q, args[0], asJSON)
			}
			all, err := batches(c.Context(), q)
			if err != nil {
				return err
			}
			if asJSON {
				list := []batchStatus{}
				for _, x := range all {
					list = append(list, batchStatus{Batch: *x.Batch, Totals: x.Totals})
				}
				return writeJSON(c.OutOrStdout(), list)
			}
			if len(all) == 0 {
				fmt.Fprintln(c.ErrOrStderr(), "knack: there are no batches yet")
				return nil
			}
			rows := [][]string{{"BATCH", "BEGAN", "TASKS", "DIRECTORY"}}
			for _, x := range all {
				rows = append(rows, []string{x.Batch.ID, x.Batch.Created.Local().Format("2006-01-02 15:04"), totalsLine(x.Totals),
					x.Batch.Dir})
			}
			writeTable(c.OutOrStdout(), rows)
			return nil
		}),
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return askable(c)
}

func showBatch(c *cobra.Command, q batch.Queue, id string, asJSON bool) error {
	x, err := findBatch(c.Context(), q, id)
	if err != nil {
		return err
	}
	all, err := runs(c.Context(), q, batch.Filter{Batch: x.Batch.ID, Rows: asJSON})
	if err != nil {
		return err
	}
	if asJSON {
		s := batchStatus{Batch: *x.Batch, Totals: x.Totals, Results: []batchResult{}}
		for _, r := range all {
			s.Results = append(s.Results, resultOf(r))
		}
		return writeJSON(c.OutOrStdout(), s)
	}
	fmt.Fprintf(c.OutOrStdout(), "%s in %s: %s\n\n", x.Batch.ID, plain.Line(x.Batch.Dir), totalsLine(x.Totals))
	rows := [][]string{{"TASK", "STATE", "TOOK", "COST", "RUN", "RESULT"}}
	for _, r := range all {
		text := ""
		switch {
		case r.State == batch.Waiting:
			text = questionTitle(r)
		case r.End != nil && r.State.Ended():
			text = cmp.Or(r.End.Error, r.End.Text)
		}
		if r.End != nil && r.End.Branch != "" {
			text = "[" + r.End.Branch + "] " + text
		}
		rows = append(rows, []string{engine.Clip(r.Key, 30), string(r.State), batch.Took(r.Took), batch.Dollars(r.Spent.Cost),
			r.ID, engine.Clip(text, 60)})
	}
	writeTable(c.OutOrStdout(), rows)
	return nil
}

func batchLogsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "logs RUN | BATCH TASK", Short: "Show the conversation of a task, and the messages of its process",
		Args: atLeastOne("knack batch logs BATCH TASK"),
		RunE: withQueue(func(c *cobra.Command, q batch.Queue, args []string) error {
			b, found, whole, err := findRuns(c.Context(), q, args, true)
			if err != nil {
				return err
			}
			if whole && len(found) > 1 {
				return engine.Usagef("knack batch logs "+b.ID+" "+plain.Line(found[0].Key), "the batch %s has %s: name one", b.ID,
					plain.Count(len(found), "task"))
			}
			for _, r := range found {
				if err := showLogs(c, r); err != nil {
					return err
				}
			}
			return nil
		}),
	}
}

func showLogs(c *cobra.Command, r batch.Run) error {
	out := c.OutOrStdout()
	fmt.Fprintf(out, "%s: %s\n", plain.Line(r.Key), r.State)
	for round := range r.Round + 1 {
		of := r
		of.Round = round
		id := work.SessionID(of)
		log, err := anySession(id)
		if err != nil {
			return err
		}
		if log == nil {
			continue
		}
		fmt.Fprintf(out, "\nsession %s\n", id)
		front := &line.Front{Out: drawn(c), Color: colors(out), Summary: part.KnownTools().Line}
		front.Show(log)
		if err := log.Close(); err != nil {
			return err
		}
	}
	for _, call := range batch.UncertainCalls(r) {
		fmt.Fprintf(out, "\nmay have happened: %s\n", plain.Line(call))
	}
	data, err := endOf(work.LogFile(engine.Env(nil).StateFile("batch"), r.ID), maxMessages)
	if err == nil && len(data) > 0 {
		fmt.Fprintf(out, "\nmessages\n%s", plain.Text(string(data)))
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// anySession reads the session with an ID, of whatever directory; nil: there is none.
func anySession(id string) (*session.Log, error) {
	dir := engine.Env(nil).StateFile("sessions")
	projects, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, p := range projects {
		store := session.Store{Dir: filepath.Join(dir, p.Name())}
		if _, err := os.Stat(filepath.Join(store.Dir, id+".jsonl")); err == nil {
			return store.Read(id)
		}
	}
	return nil, nil
}

func batchCancelCommand() *cobra.Command {
	return &cobra.Command{
		Use: "cancel BATCH [TASK…] | RUN", Short: "Stop tasks, and do not begin those that are left",
		Args: atLeastOne("knack batch cancel BATCH"),
		RunE: withQueue(func(c *cobra.Command, q batch.Queue, args []string) error {
			b, found, whole, err := findRuns(c.Context(), q, args, false)
			if err != nil {
				return err
			}
			var ids []string
			open := 0
			for _, r := range found {
				if !whole {
					ids = append(ids, r.ID)
				}
				if !r.State.Ended() {
					open++
				}
			}
			if err := q.Cancel(c.Context(), b.ID, ids...); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s cancelled\n", plain.Count(open, "task"))
			return err
		}),
	}
}

func batchRetryCommand() *cobra.Command {
	return &cobra.Command{
		Use: "retry BATCH [TASK…] | RUN", Short: "Begin tasks anew; without a task, all that are not done",
		Args: atLeastOne("knack batch retry BATCH"),
		RunE: withQueue(func(c *cobra.Command, q batch.Queue, args []string) error {
			b, found, whole, err := findRuns(c.Context(), q, args, false)
			if err != nil {
				return err
			}
			n := 0
			for _, r := range found {
				if whole && (r.State == batch.Done || !r.State.Ended()) {
					continue
				}
				if err := q.Requeue(c.Context(), r.ID, nil); errors.Is(err, batch.ErrState) {
					return engine.Usagef("knack batch status "+b.ID, "%s has not ended: it is %s", r.Key, r.State)
				} else if err != nil {
					return err
				}
				n++
			}
			fmt.Fprintf(c.OutOrStdout(), "%s ready again\n", are(n, "task"))
			if n > 0 {
				fmt.Fprintln(c.ErrOrStderr(), "knack: hint:",
					hintOf(c.Root(), "the command of the batch, or knack worker, runs them"))
			}
			return nil
		}),
	}
}

// questionTitle describes what a run waits for, in a line.
func questionTitle(r batch.Run) string {
	q := work.QuestionOf(r)
	if q.Tool == "" {
		return q.Title
	}
	return q.Title + " " + part.KnownTools().Line(q.Tool, q.Input)
}

func batchAnswerCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "answer [RUN | BATCH [TASK]] [ANSWER]", Short: "Show the questions that tasks wait for, and answer them",
		Long: `Show the questions that tasks wait for, and answer one: with yes or no, the name of an
option, or a text. The first answer counts; after it the command of the batch, or
knack worker, goes on with the task. An answer that is no ends the task.

On a terminal, and without an answer, each question is asked.`,
		Example: `  knack batch answer
  knack batch answer 5f0c2c1d9a3b7e44 yes`,
		RunE: withQueue(func(c *cobra.Command, q batch.Queue, args []string) error {
			filter := batch.Filter{}
			answer := ""
			if len(args) > 0 {
				_, found, whole, err := findRuns(c.Context(), q, args[:1], false)
				if err != nil {
					return err
				}
				rest := args[1:]
				if whole && len(rest) > 0 {
					for _, r := range found {
						if r.Key == rest[0] {
							found, whole, rest = []batch.Run{r}, false, rest[1:]
							break
						}
					}
				}
				if whole {
					found = slices.DeleteFunc(found, func(r batch.Run) bool { return r.State != batch.Waiting })
				}
				answer = strings.Join(rest, " ")
				switch {
				case whole && answer != "" && len(found) != 1:
					return engine.Usagef("knack batch answer "+args[0], "%s: name one", theyWait(len(found)))
				case len(found) == 1 && found[0].State != batch.Waiting:
					return engine.Usagef("knack batch answer", "%s does not wait: it is %s", found[0].Key, found[0].State)
				case len(found) == 1:
					filter.Run = found[0].ID
				default:
					filter.Batch = args[0]
					if len(found) > 0 {
						filter.Batch = found[0].Batch
					}
				}
			}
			if answer == "" && isTerminal(c.InOrStdin()) && isTerminal(c.OutOrStdout()) {
				_, err := answerWaiting(c, q, filter)
				return err
			}
			all, err := waitingRuns(c.Context(), q, filter)
			if err != nil {
				return err
			}
			if len(all) == 0 {
				fmt.Fprintln(c.ErrOrStderr(), "knack: no task waits for an answer")
				return nil
			}
			if answer == "" {
				for _, r := range all {
					writeQuestion(c.OutOrStdout(), r)
				}
				return nil
			}
			a, err := work.QuestionOf(all[0]).AnswerTo(answer)
			if err != nil {
				return err
			}
			return sendAnswer(c, q, all[0], a)
		}),
	}
	return c
}

func sendAnswer(c *cobra.Command, q batch.Queue, r batch.Run, a batch.Answer) error {
	err := q.Requeue(c.Context(), r.ID, &a)
	if errors.Is(err, batch.ErrState) {
		return &engine.Error{Err: fmt.Errorf("%s was answered already", r.Key), Hint: "knack batch status " + r.Batch}
	}
	if err != nil {
		return err
	}
	word := "goes on"
	if a.No {
		word = "ends"
	}
	_, err = fmt.Fprintf(c.ErrOrStderr(), "knack: answered: %s %s\n", plain.Line(r.Key), word)
	return err
}

func writeQuestion(w io.Writer, r batch.Run) {
	q := work.QuestionOf(r)
	fmt.Fprintf(w, "%s (run %s) asks: %s\n", plain.Line(r.Key), r.ID, plain.Line(q.Title))
	writeChoices(w, q)
}

// writeChoices writes what a question is about, and its answers.
func writeChoices(w io.Writer, q work.Question) {
	if q.Tool != "" && len(q.Changes) == 0 {
		fmt.Fprintf(w, "  %s\n", plain.Line(part.KnownTools().Line(q.Tool, q.Input)))
	}
	for _, c := range q.Changes {
		writeChange(w, c)
	}
	for _, f := range q.Others() {
		fmt.Fprintf(w, "  with %s as it is now (SHA-256 %.12s…)\n", plain.Line(f.Path), f.Hash)
	}
	if q.Text != "" {
		fmt.Fprintf(w, "  %s\n", strings.ReplaceAll(plain.Text(q.Text), "\n", "\n  "))
	}
	for i, o := range q.Choices() {
		help := ""
		if o.Help != "" {
			help = " (" + plain.Line(o.Help) + ")"
		}
		fmt.Fprintf(w, "  %d  %s%s\n", i+1, plain.Line(o.Label), help)
	}
}

// writeChange writes what a call would do to a file, as the screen shows it.
func writeChange(w io.Writer, c work.Change) {
	fmt.Fprintf(w, "  %s\n", plain.Line(c.Path))
	for _, l := range show.Diff(c.Diff, c.Path, 1<<20) {
		fmt.Fprintf(w, "    %s\n", strings.TrimRight(l.String(), " "))
	}
	if c.More > 0 {
		fmt.Fprintf(w, "    (%s of the change not shown)\n", plain.Count(c.More, "more line"))
	}
}

// waitingRuns returns the runs that wait for an answer, without those of sessions in the background.
func waitingRuns(ctx context.Context, q batch.Queue, f batch.Filter) ([]batch.Run, error) {
	f.States = []batch.State{batch.Waiting}
	all, err := runs(ctx, q, f)
	return slices.DeleteFunc(all, func(r batch.Run) bool {
		return strings.HasPrefix(r.Batch, batch.BackgroundPrefix)
	}), err
}

// answerWaiting asks the questions of runs that wait on the terminal, and returns how many were answered. An empty
// line leaves a question open.
func answerWaiting(c *cobra.Command, q batch.Queue, f batch.Filter) (n int, err error) {
	all, err := waitingRuns(c.Context(), q, f)
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		fmt.Fprintln(c.ErrOrStderr(), "knack: no task waits for an answer")
	}
	for _, r := range all {
		for {
			var shown strings.Builder
			writeQuestion(&shown, r)
			text, err := answer(c, shown.String()+"Answer (empty: later): ")
			if err != nil || text == "" { // "": the input has ended
				return n, err
			}
			if text = strings.TrimSpace(text); text == "" {
				break
			}
			a, err := work.QuestionOf(r).AnswerTo(text)
			if err != nil {
				fmt.Fprintln(c.ErrOrStderr(), "knack:", plain.Line(err.Error()))
				continue
			}
			n++
			if err := sendAnswer(c, q, r, a); err != nil {
				fmt.Fprintln(c.ErrOrStderr(), "knack:", plain.Line(err.Error()))
			}
			break
		}
	}
	return n, nil
}
