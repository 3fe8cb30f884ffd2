package mcp

import (
	"context"
	"errors"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// revive connects again to a server whose connection has ended, and waits for the result. dead is the session that is
// known to have ended; nil: none.
func revive(ctx context.Context, p *peer, dead *sdk.ClientSession) (*sdk.ClientSession, error) {
	p.mu.Lock()
	if p.duplicate || p.disabled || p.session != nil && p.session != dead && p.state == Connected {
		p.mu.Unlock()
		return p.ready(ctx)
	}
	ended := make(chan error, 1)
	p.waiting = append(p.waiting, ended)
	p.mu.Unlock()
	p.client.Retry(p.server.Name)
	select {
	case err := <-ended: // not the state now: the next attempt may have begun
		if err != nil {
			return nil, err
		}
	case <-p.client.ctx.Done():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return p.ready(ctx)
}

// died reports whether a server that was connected has ended, so that it is worth to start it again.
func died(p *peer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version != "" && p.state != NeedsLogin && !p.disabled && !p.duplicate
}

// connectionEnded reports whether a call failed because the connection ended.
func connectionEnded(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, sdk.ErrConnectionClosed) || errors.Is(err, io.ErrClosedPipe)
}
