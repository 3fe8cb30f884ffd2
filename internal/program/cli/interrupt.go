package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/knack-agent/knack/engine"
)

// twice returns a channel that the first Ctrl-C closes, and a context that the second, or another signal, cancels. once
// is called after the first one. A signal after that ends the program at once.
func twice(ctx context.Context, once func()) (context.Context, <-chan struct{}, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	drain := make(chan struct{})
	ch := make(chan os.Signal, 1)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		defer signal.Stop(ch)
		first := true
		for {
			select {
			case s := <-ch:
				if s == os.Interrupt && first {
					first = false
					close(drain)
					once()
					continue
				}
				code := engine.ExitTerminated
				switch s {
				case os.Interrupt:
					code = engine.ExitInterrupted
				case syscall.SIGHUP:
					code = engine.ExitHungUp
				}
				cancel(&engine.Error{Err: errors.New("stopped"), Exit: code})
				return
			case <-done:
				return
			}
		}
	}()
	return ctx, drain, func() { close(done); cancel(nil) }
}
