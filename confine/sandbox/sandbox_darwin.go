package sandbox

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/knack-agent/knack/confine/permission"
	"github.com/knack-agent/knack/confine/workspace"
)

// sandboxExec is part of the system, so PATH is not searched.
const sandboxExec = "/usr/bin/sandbox-exec"

type system struct{ limits limits }

func newSystem(Policy) system { return system{} }

// probe tests sandbox-exec by running a program that does nothing.
func (*system) probe(p Policy) Report {
	if out, err := exec.Command(sandboxExec, "-p", resolve(p, workspace.Allowance{}, nil, "", 0).profile(),
		"/usr/bin/true").CombinedOutput(); err != nil {
		return Report{Missing: []string{fmt.Sprintf("sandbox-exec: %v %s", err, out)}, Open: everythingOpen}
	}
	return Report{
		Level: Partial, Backend: "sandbox-exec",
		Missing: []string{"macOS has no namespaces"},
		Open: []string{
			"processes that leave their group outlive the command",
			"memory and processes are not bounded",
			"no unix socket can be connected to, not even a command's own",
			"there is no private loopback: a command can listen, and connect only to the proxy",
		},
	}
}

func resolve(p Policy, a workspace.Allowance, caches []string, temp string, port int) seatbelt {
	return seatbelt{
		roots: real(append([]string{p.Dir}, p.Roots...)), write: real(append(slices.Clone(p.Write), caches...)),
		own: real(p.Own), secrets: real(p.Secrets),
		protected: p.Protected, only: real(p.only), opened: real(a.Write), readable: real(a.Read), temp: temp, port: port,
		network: p.Network,
	}
}

// real resolves links. A path that does not exist stays as written, because a profile may name it.
func real(paths []string) []string {
	if paths == nil {
		return nil
	}
	out := []string{}
	for _, path := range paths {
		if r, err := filepath.EvalSymlinks(path); err == nil {
			path = r
		}
		out = append(out, path)
	}
	return out
}

func (s *system) confine(p Policy, _ Report, cmd *exec.Cmd, c *workspace.Command) (func(*workspace.Exit), error) {
	p.makeCaches()
	temp, end := c.Temp, func() {}
	if temp == "" {
		own, err := os.MkdirTemp("", "knack-")
		if err != nil {
			return nil, err
		}
		temp, end = own, func() { os.RemoveAll(own) }
	}
	temp = real([]string{temp})[0]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		end()
		return nil, err
	}
	s.limits.begin(&p)
	own := p.own(nil, cmd.Env, temp)
	x := newProxy(append(append([]string(nil), p.Hosts...), c.Allow.Hosts...), p.NoHosts, c.Allow.Reach)
	x.connected = c.Connected
	x.serveAsks(p.Program)
	x.accept(l)
	port := l.Addr().(*net.TCPAddr).Port
	profile := resolve(p, p.withoutLinks(c.Allow), own.write, temp, port)
	cmd.Env = setenv(setenv(p.environ(cmd.Env, c.Env), own.env...), append(x.environ(port), "TMPDIR="+temp)...)
	cmd.Args = append([]string{sandboxExec, "-p", profile.profile(), cmd.Path}, cmd.Args[1:]...)
	cmd.Path = sandboxExec
	w, dir := watch(c), cmd.Dir
	return func(exit *workspace.Exit) {
		x.close()
		end()
		own.unlock()
		s.limits.end(&p)
		exit.Refused = append(exit.Refused, w.read(dir, profile, x.passedBy)...)
		exit.Refused = append(exit.Refused, x.refused()...)
	}, nil
}

// judge implements the interface judge.
func (s seatbelt) judge(dir, name string) string {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, name)
	}
	at := real([]string{path})[0]
	switch {
	case withinAny(s.opened, at), withinAny(s.readable, at):
		return ""
	case withinAny(s.secrets, at), permission.KeyFile(filepath.Base(at)) && withinAny(s.roots, at):
		return fmt.Sprintf("reading %s, which contains secrets. To allow it: %s", path, readRule(path))
	case withinAny(append(s.write, s.temp), at), withinAny(s.roots, at) && !guarded(s.protected, at):
		return ""
	}
	if info, err := os.Lstat(filepath.Dir(at)); err != nil || !info.IsDir() {
		return "" // a word that only looks like a path
	}
	return fmt.Sprintf("writing %s, which is outside this folder or protected. To allow it: %s", path,
		editRule(path))
}

// absent implements the interface judge: commands have the machine's files.
func (s seatbelt) absent(string) string { return "" }

func (*system) leftovers() []string { return nil }

func (s *system) close(p *Policy) { s.limits.close(p) }

func (*system) layered(*Policy, Report) ([]string, string) { return nil, "no layers on macOS" }

// MachineListens reports whether a program of this machine listens on a port that a command with a loopback interface
// of its own cannot reach: here it has none.
func MachineListens(port string) bool { return false }
