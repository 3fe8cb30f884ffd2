package mcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
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

// lostSession recognises what servers say of a session that they have forgotten: after a restart, or because nothing
// was sent for a while.
var lostSession = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)\bsession\b[^.]{0,20} (not found|not exist|(has )?expired|terminated)` +
		`|\b(invalid|unknown|expired|no valid) (mcp.)?session\b`)
})

// sessionLost reports whether a call was refused because the server has forgotten the session, so that it had no
// effect. In an answer to the call, the whole message must say so: a tool may tell about a session of its own.
func sessionLost(err error) bool {
	if errors.Is(err, sdk.ErrSessionMissing) {
		return true
	}
	var answer *jsonrpc.Error
	if !errors.As(err, &answer) {
		return err != nil && lostSession().MatchString(err.Error())
	}
	found := lostSession().FindString(answer.Message)
	return found != "" && found == strings.TrimRight(answer.Message, ".! ")
}

// asNotFound makes an answer about a forgotten session the one that the protocol has for it, 404 without a message;
// many servers send another.
func asNotFound(res *http.Response) {
	if res.StatusCode != http.StatusBadRequest && res.StatusCode != http.StatusNotFound {
		return
	}
	start, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10))
	rest := io.Reader(res.Body)
	if lostSession().Match(start) {
		start, rest = nil, strings.NewReader("")
		res.StatusCode, res.Status, res.ContentLength = http.StatusNotFound, "404 Not Found", 0
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start), rest), res.Body}
}
