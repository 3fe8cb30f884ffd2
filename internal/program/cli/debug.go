package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/knack-agent/knack/engine"
	"github.com/knack-agent/knack/internal/leaf/outfile"
	"github.com/knack-agent/knack/sources"
)

// joinValue joins a flag that may stand without a value with the next argument, if that can be its value. Anything else
// after the flag is the prompt.
func joinValue(args []string, flag string, can func(string) bool) []string {
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	i := slices.Index(args[:end], flag)
	if i < 0 || i+1 >= end || !can(args[i+1]) {
		return args
	}
	return slices.Concat(args[:i], []string{flag + "=" + args[i+1]}, args[i+2:])
}

// debugTopics reports whether a word is a list of topics, as other agents accept it after --debug.
func debugTopics(word string) bool {
	return !slices.ContainsFunc(strings.Split(word, ","), func(topic string) bool {
		return topic != "all" && !slices.Contains(engine.DebugTopics, topic)
	})
}

// A debugLog is the log of a process: off, on from the start, or switched on later.
type debugLog struct {
	on   atomic.Pointer[slog.Handler] // nil: off
	mu   sync.Mutex                   // for switching it on
	file string
}

// openDebug opens the log requested by --debug or KNACK_DEBUG, in a new file, and prints the
// file's path. If neither is set, it is off. If path is not "", the log is appended to that file.
func openDebug(topics, path string, stderr io.Writer) (*debugLog, error) {
	l := &debugLog{}
	topics = cmp.Or(topics, engine.Env(nil).Get("KNACK_DEBUG"))
	if path != "" {
		topics = cmp.Or(topics, "all")
	}
	var only []string
	switch topics {
	case "", "0", "false":
		return l, nil
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
	if path != "" {
		file, err := outfile.Open(sources.Root("."), path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, engine.Usagef("--debug-file FILE", "--debug-file: %w", err)
		}
		l.to(file, only)
		return l, nil
	}
	if err := l.create(only); err != nil {
		return nil, err
	}
	fmt.Fprintf(stderr, "knack: debug log: %s\n", l.file)
	return l, nil
}

// create switches the log on, in a new file of the state directory.
func (l *debugLog) create(only []string) error {
	dir := engine.Env(nil).StateFile("debug")
	if dir == "" {
		return engine.ErrNoState("--debug")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("--debug: %w", err)
	}
	file, err := os.CreateTemp(dir, time.Now().Format("20060102-150405-*.log")) // 0600; open until the program ends
	if err != nil {
		return fmt.Errorf("--debug: %w", err)
	}
	l.to(file, only)
	return nil
}

func (l *debugLog) to(file *os.File, only []string) {
	l.file = file.Name()
	var h slog.Handler = topicHandler{slog.NewTextHandler(file, &slog.HandlerOptions{Level: slog.LevelDebug}), only}
	l.on.Store(&h)
}

// start switches the log on with all topics, unless it is on, and returns its file.
func (l *debugLog) start() (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.on.Load() == nil {
		if err := l.create(engine.DebugTopics); err != nil {
			return "", err
		}
	}
	return filepath.Abs(l.file)
}

// path returns the log's file; "": it is off.
func (l *debugLog) path() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == "" {
		return ""
	}
	file, _ := filepath.Abs(l.file)
	return file
}

func (l *debugLog) logger() *slog.Logger { return slog.New(switchedHandler{log: l}) }

// A switchedHandler is a slog.Handler that drops everything while the log is off.
type switchedHandler struct {
	log  *debugLog
	with []func(slog.Handler) slog.Handler // attributes and groups, in order
}

func (h switchedHandler) Enabled(ctx context.Context, level slog.Level) bool {
	on := h.log.on.Load()
	return on != nil && (*on).Enabled(ctx, level)
}

func (h switchedHandler) Handle(ctx context.Context, r slog.Record) error {
	on := h.log.on.Load()
	if on == nil {
		return nil
	}
	to := *on
	for _, with := range h.with {
		to = with(to)
	}
	return to.Handle(ctx, r)
}

func (h switchedHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return h.and(func(to slog.Handler) slog.Handler { return to.WithAttrs(attrs) })
}

func (h switchedHandler) WithGroup(name string) slog.Handler {
	return h.and(func(to slog.Handler) slog.Handler { return to.WithGroup(name) })
}

func (h switchedHandler) and(with func(slog.Handler) slog.Handler) slog.Handler {
	h.with = append(slices.Clip(h.with), with)
	return h
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
