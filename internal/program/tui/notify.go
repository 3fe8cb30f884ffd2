package tui

import (
	"context"
	"io"
	"os/exec"
	"strings"
	"time"
)

// notifyTime is the time limit of the notification command.
const notifyTime = 5 * time.Second

// notify notifies the user, who may be looking elsewhere, that the program waits for an
// answer. message must be our own text, since it is not escaped.
func (a *app) notify(message string) {
	switch how := strings.TrimSpace(a.o.Notify); how {
	case "", "bell":
		io.WriteString(a.o.Out, "\a")
	case "off":
	case "osc9":
		io.WriteString(a.o.Out, "\x1b]9;"+message+"\x1b\\")
	default:
		words := append(strings.Fields(how), message)
		a.work(func(ctx context.Context) func() {
			ctx, stop := context.WithTimeout(ctx, notifyTime)
			defer stop()
			c := exec.CommandContext(ctx, words[0], words[1:]...)
			c.WaitDelay = time.Second
			err := c.Run()
			return func() {
				if err != nil && ctx.Err() == nil {
					a.view.hint = "notify: " + err.Error()
				}
			}
		})
	}
}
