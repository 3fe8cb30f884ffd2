package sandbox

import (
	"bufio"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// A Program is the running program, as far as commands may use it.
type Program struct {
	// Path is its file, which commands find by the name knack after the rest of PATH if it is still the one that runs;
	// "": they do not. Only Linux with mount namespaces has it.
	Path string `json:"path,omitempty"`
	// Ask answers what the program inside asks the one outside about the project in Dir: it keeps what commands must not
	// open. Any program inside may send a request. Commands with the whole network, or without namespaces, cannot ask.
	// nil: nothing is answered.
	Ask func(ctx context.Context, dir string, request []byte) (answer []byte) `json:"-"`
	Dir string                                                                `json:"dir,omitempty"`
}

// AskVariable is the environment variable with the address to which the program inside posts what it asks.
const AskVariable = "KNACK_ASK"

const maxAsk = 64 << 10 // bytes of a request

// An asking serves the questions of the program inside, one after the other.
type asking struct {
	program Program
	path    string // a secret of the command: where there is no private loopback, others can connect, too
	mu      sync.Mutex
}

// serveAsks makes the proxy answer what the program inside asks.
func (p *proxy) serveAsks(program Program) {
	if program.Ask != nil {
		p.asks = &asking{program: program, path: "/" + rand.Text()}
	}
}

// isAsk reports whether a request is not for the proxy but for the program.
func (p *proxy) isAsk(req *http.Request) bool {
	return p.asks != nil && req.Method == http.MethodPost && req.URL.Host == "" && req.URL.Path == p.asks.path
}

// answer answers a request whose header was read.
func (a *asking) answer(ctx context.Context, conn net.Conn, req *http.Request) {
	conn.SetReadDeadline(time.Now().Add(time.Minute))
	request, err := io.ReadAll(io.LimitReader(req.Body, maxAsk+1))
	if err != nil || len(request) > maxAsk {
		answer(conn, http.StatusRequestEntityTooLarge, "that is no question of the program")
		return
	}
	a.mu.Lock()
	reply := a.program.Ask(ctx, a.program.Dir, request)
	a.mu.Unlock()
	w := bufio.NewWriter(conn)
	fmt.Fprintf(w, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n",
		len(reply))
	w.Write(reply)
	w.Flush()
}
