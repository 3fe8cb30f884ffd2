// Package browser provides tools that drive Chromium: open a page, read it as an accessibility tree, click, type, take
// a screenshot, and read its console and its requests.
//
// [Tools] returns them for one session. The browser starts with the first page. It has a profile of its own, which is
// deleted when it ends, and takes its commands from a pipe (the DevTools protocol), so no port is open. It runs as a
// command of the workspace, in its sandbox, and reaches the network only through the sandbox's proxy, which asks
// [Browser] about each connection: only hosts that the user allowed one by one are reached, whatever a page, a redirect
// or a script wants. Hosts of this machine are allowed with their port.
//
//	b := browser.New(browser.Options{Workspace: ws, Program: chromium.Find(os.Getenv)})
//	defer b.Close()
//	tools := b.Tools()
//
// Most programs start with package engine.
package browser

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/target"

	"github.com/knack-agent/knack/confine/sandbox"
	"github.com/knack-agent/knack/confine/workspace"
)

// Options configure a Browser.
type Options struct {
	// Workspace runs the browser; nil: the tools are only for their names and schemas.
	Workspace Workspace
	// Program is the path of Chromium or Chrome.
	Program string
	// Unconfined reports whether the workspace runs commands without a sandbox; nil: it does not. The browser then gets
	// a proxy of its own, which decides in the same way, but nothing except the browser itself makes it use that proxy.
	Unconfined func() bool
	// Carries explains why a URL, or what is typed into a page, may carry a secret; "": it does not. nil: nothing does.
	Carries func(text string) string
}

// A Workspace is what a Browser needs of one.
type Workspace interface {
	Run(ctx context.Context, c workspace.Command) (workspace.Exit, error)
	Realpath(ctx context.Context, path string) (string, error)
	WriteFile(ctx context.Context, path string, data []byte) error
}

// Limits of time.
const (
	startTime  = 60 * time.Second       // to start the browser
	callTime   = 60 * time.Second       // for one call of a tool
	settleTime = 10 * time.Second       // for a page to load after something was done
	quietTime  = 400 * time.Millisecond // without requests, after which a page counts as loaded
	endTime    = 5 * time.Second        // to end in an orderly way
)

// A Browser is the browser of one session. It is safe for concurrent use; its tools run one at a time.
type Browser struct {
	opt Options

	calls sync.Mutex // held while a tool runs

	mu      sync.Mutex
	closed  bool
	used    bool              // a page was opened
	allowed map[string]bool   // "host:port"
	blocked map[string]string // by "host:port" that was refused since the last report, the one that was asked for
	run     *process          // nil: the browser does not run
	shown   map[string]string // the text of each tab that the model has seen last
}

// New returns a Browser that does not run yet.
func New(o Options) *Browser {
	return &Browser{opt: o, allowed: map[string]bool{}, blocked: map[string]string{}}
}

// Close ends the browser and deletes its profile. A nil Browser is closed.
func (b *Browser) Close() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	run := b.run
	b.run, b.closed = nil, true
	b.mu.Unlock()
	if run != nil {
		run.close()
	}
	return nil
}

// reach decides about a connection of the browser. A name that leads into this machine's network opens nothing there:
// whoever owns it chooses anew where it leads after the user has allowed it.
func (b *Browser) reach(_ context.Context, to workspace.Destination) error {
	asked := to.Host + ":" + to.Port
	address, why := asked, "the browser reaches only what was allowed"
	if to.Address.IsValid() {
		address = to.Address.String() + ":" + to.Port
		why = "it leads to " + to.Address.String() + ", an address of this machine's network, which is allowed by itself"
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.allowed[address] || to.Listed {
		return nil
	}
	if len(b.blocked) < 100 {
		b.blocked[address] = asked
	}
	return errors.New(why)
}

// A process is a running browser.
type process struct {
	*wire
	stop  context.CancelCauseFunc
	ended chan struct{} // closed when the process has ended
	noise *tail

	mu      sync.Mutex
	tabs    []*tab // in the order in which they were opened
	changed chan struct{}
}

// program starts the browser with the pipe where it expects it, on the descriptors 3 and 4, and with a profile that is
// deleted when it ends.
const program = `[ "$` + sandbox.ProxyVariable + `" ] || { echo "this sandbox has no way to the network" >&2; exit 1; }
dir=$(mktemp -d) || exit 1
"$0" "--user-data-dir=$dir" "--proxy-server=$` + sandbox.ProxyVariable + `" "$@" 3<&0 4>&1 </dev/null >&2
rm -rf "$dir"`

// flags start a browser that shows no window, asks nothing, talks to nobody on its own, and uses only the proxy.
var flags = []string{
	"--headless", "--remote-debugging-pipe", "--no-first-run", "--no-default-browser-check", "--no-startup-window",
	// The renderer's own sandbox needs namespaces, which the workspace's sandbox does not give.
	"--no-sandbox", "--disable-gpu", "--window-size=1280,800", "--hide-scrollbars", "--mute-audio",
	"--proxy-bypass-list=<-loopback>", "--disable-quic", "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
	"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--disable-background-networking",
	"--disable-component-update", "--disable-component-extensions-with-background-pages", "--disable-default-apps",
	"--disable-extensions", "--disable-sync", "--disable-domain-reliability", "--disable-client-side-phishing-detection",
	"--disable-breakpad", "--disable-crash-reporter", "--metrics-recording-only", "--no-pings", "--no-service-autorun",
	"--disable-search-engine-choice-screen", "--password-store=basic", "--use-mock-keychain",
	"--disable-features=Translate,OptimizationHints,MediaRouter,AutofillServerCommunication,CertificateTransparency" +
		"ComponentUpdater,InterestFeedContentSuggestions,DialMediaRouteProvider,HttpsUpgrades,HttpsFirstBalancedMode",
}

// start starts the browser.
func (b *Browser) start(ctx context.Context) (*process, error) {
	b.mu.Lock()
	switch {
	case b.closed:
		b.mu.Unlock()
		return nil, errors.New("the session has ended")
	case b.run != nil:
		defer b.mu.Unlock()
		return b.run, nil
	}
	b.mu.Unlock()
	if b.opt.Program == "" {
		return nil, errors.New("neither Chromium nor Chrome was found on PATH or in its usual places")
	}
	var env []string
	stopProxy := func() {}
	if b.opt.Unconfined != nil && b.opt.Unconfined() {
		url, stop, err := sandbox.Listen(b.reach)
		if err != nil {
			return nil, err
		}
		env, stopProxy = []string{sandbox.ProxyVariable + "=" + url}, stop
	}
	in, to := io.Pipe()
	p := &process{wire: &wire{to: to, waiting: map[int64]chan message{}}, ended: make(chan struct{}), noise: &tail{},
		changed: make(chan struct{})}
	p.event = p.handle
	// The browser outlives the call that starts it.
	run, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	p.stop = stop
	var exit workspace.Exit
	var failed error
	go func() {
		defer close(p.ended)
		exit, failed = b.opt.Workspace.Run(run, workspace.Command{
			Args:  append([]string{"sh", "-c", program, b.opt.Program}, flags...),
			Stdin: in, Output: p.wire, Stderr: p.noise, Env: env, Allow: workspace.Allowance{Reach: b.reach},
		})
		in.CloseWithError(errEnded)
		p.end()
		stopProxy()
		b.mu.Lock()
		if b.run == p {
			b.run = nil
		}
		b.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("the browser did not start within %s", startTime))
	defer cancel()
	yes := true
	_, err := call(ctx, p.wire, "", target.SetAutoAttach, target.SetAutoAttachParams{AutoAttach: true,
		WaitForDebuggerOnStart: true, Flatten: &yes})
	if err == nil {
		_, err = call(ctx, p.wire, "", cdpbrowser.SetDownloadBehavior, cdpbrowser.SetDownloadBehaviorParams{
			Behavior: cdpbrowser.SetDownloadBehaviorBehaviorDeny})
	}
	if err == nil {
		_, err = call(ctx, p.wire, "", target.CreateTarget, target.CreateTargetParams{URL: "about:blank"})
	}
	if err == nil {
		_, err = p.tab(ctx)
	}
	if err != nil {
		p.close()
		switch {
		case failed != nil && !errors.Is(failed, context.Canceled):
			err = failed
		case len(exit.Refused) > 0 && errors.Is(err, errEnded):
			err = errors.New(strings.Join(exit.Refused, "; "))
		case errors.Is(err, errEnded):
			err = p.noise.explain(err)
		}
		return nil, fmt.Errorf("%s could not be started: %w", filepath.Base(b.opt.Program), err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		go p.close()
		return nil, errors.New("the session has ended")
	}
	b.run = p
	return p, nil
}

// close ends the browser: it exits when its pipe is closed.
func (p *process) close() {
	p.to.Close()
	select {
	case <-p.ended:
	case <-time.After(endTime):
		p.stop(errEnded)
		<-p.ended
	}
	p.stop(nil)
}

// A tail keeps the end of what was written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, data...)
	if over := len(t.text) - 4096; over > 0 {
		t.text = slices.Clone(t.text[over:])
	}
	return len(data), nil
}

// explain adds the last lines that the browser wrote to an error.
func (t *tail) explain(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	if text := strings.Join(lines[max(0, len(lines)-3):], "; "); text != "" {
		return fmt.Errorf("%w: %s", err, text)
	}
	return err
}
