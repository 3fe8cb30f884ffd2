package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/knack-agent/knack/engine"
)

// joinDebug joins --debug with topics in the next argument, as other agents accept them. Anything else after --debug
// is the prompt.
func joinDebug(args []string) []string {
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	i := slices.Index(args[:end], "--debug")
	if i < 0 || i+1 >= end || slices.ContainsFunc(strings.Split(args[i+1], ","), func(topic string) bool {
		return topic != "all" && !slices.Contains(engine.DebugTopics, topic)
	}) {
		return args
	}
	return slices.Concat(args[:i], []string{"--debug=" + args[i+1]}, args[i+2:])
}

// openDebug opens the log requested by --debug or KNACK_DEBUG, in a new file, and prints the
// file's path. It returns nil if neither is set. If path is not "", the log is appended to that file.
func openDebug(topics, path string, stderr io.Writer) (*slog.Logger, error) {
	env := engine.Env(nil)
	topics = cmp.Or(topics, env.Get("KNACK_DEBUG"))
	if path != "" {
		topics = cmp.Or(topics, "all")
	}
	var only []string
	switch topics {
	case "", "0", "false":
		return nil, nil
	case "1", "true":
		only = engine.DebugTopics
	default:
		only = strings.Split(topics, ",")
	}
	if slices.Contains(only, "all") {
		only = slices.Concat(slices.DeleteFunc(only, func(s string) bool { return s == "all" }), engine.DebugTopics)
	}
	for _, topic := range only {
		if !slices.Contains(engine.DebugTopics, topic) {
			return nil, engine.Usagef("knack --debug="+engine.DebugTopics[0], "--debug: unknown topic %q; the topics are %s",
				topic, strings.Join(engine.DebugTopics, ", "))
		}
	}
	logTo := func(file *os.File) *slog.Logger {
		return slog.New(topicHandler{slog.NewTextHandler(file, &slog.HandlerOptions{Level: slog.LevelDebug}), only})
	}
	if path != "" {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, engine.Usagef("--debug-file FILE", "--debug-file: %w", err)
		}
		return logTo(file), nil
	}
	dir := env.StateFile("debug")
	if dir == "" {
		return nil, engine.ErrNoState("--debug")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--debug: %w", err)
	}
	file, err := os.CreateTemp(dir, time.Now().Format("20060102-150405-*.log")) // 0600; open until the program ends
	if err != nil {
		return nil, fmt.Errorf("--debug: %w", err)
	}
	fmt.Fprintf(stderr, "knack: debug log: %s\n", file.Name())
	return logTo(file), nil
}

// A topicHandler keeps only the records whose topic attribute is in only.
type topicHandler struct {
	slog.Handler
	only []string
}

func (h topicHandler) Handle(ctx context.Context, r slog.Record) error {
	keep := false
	r.Attrs(func(a slog.Attr) bool {
		keep = a.Key == "topic" && slices.Contains(h.only, a.Value.String())
		return a.Key != "topic"
	})
	if !keep {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h topicHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return topicHandler{h.Handler.WithAttrs(attrs), h.only}
}

func (h topicHandler) WithGroup(name string) slog.Handler {
	return topicHandler{h.Handler.WithGroup(name), h.only}
}
