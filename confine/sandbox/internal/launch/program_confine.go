//go:build linux && (amd64 || arm64)

package launch

import "syscall"

// loopback brings up the interface "lo", which is down in a new network namespace.
func (p *Program) loopback() {
	p.doing = "bringing up the loopback"
	fd := p.slot()
	p.do(syscall.SYS_SOCKET, syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0).to(fd)
	request := make([]byte, 40) // struct ifreq: a name of 16 bytes, flags
	copy(request, "lo")
	request[16] = syscall.IFF_UP | syscall.IFF_RUNNING
	p.do(syscall.SYS_IOCTL, fd, syscall.SIOCSIFFLAGS, request)
	p.close(fd)
}

// listen opens a socket that listens inside the namespace. The parent gets it, accepts connections on
// it and dials outside, so no process is needed in between.
func (p *Program) listen(port uint64, fd number) {
	p.doing = "listening on a port"
	p.do(syscall.SYS_SOCKET, syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0).to(fd)
	address := []byte{syscall.AF_INET, 0, byte(port >> 8), byte(port), 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}
	p.do(syscall.SYS_BIND, fd, address, 16)
	p.do(syscall.SYS_LISTEN, fd, 64)
}

func (p *Program) limit(l Limit) {
	p.doing = "setting a limit"
	var now syscall.Rlimit
	if syscall.Getrlimit(int(l.Resource), &now) == nil {
		l.Max = min(l.Max, now.Max) // only root may raise it
	}
	p.do(syscall.SYS_PRLIMIT64, 0, l.Resource, p.words(l.Max, l.Max), 0)
}

// unless returns the error to tolerate outside namespaces: an ordinary user may not drop
// capabilities there, and has none.
func unless(inside bool) syscall.Errno {
	if inside {
		return 0
	}
	return syscall.EPERM
}

// bound prevents gaining a capability by executing a program, in this process and in its children.
func (p *Program) bound(inside bool) {
	p.doing = "dropping capabilities"
	last := p.label()
	for c := range 64 {
		p.do(syscall.SYS_PRCTL, prCapbsetDrop, c, 0, 0, 0).or(syscall.EINVAL, unless(inside))
		p.jump(last)
	}
	p.place(last)
}

// powerless permanently gives up all capabilities; call it after bound.
func (p *Program) powerless(inside bool) {
	p.doing = "dropping capabilities"
	p.do(syscall.SYS_PRCTL, prCapAmbient, prCapAmbientClearAll, 0, 0, 0).orAnything()
	p.do(syscall.SYS_PRCTL, prSetSecurebits, securebits, 0, 0, 0).or(unless(inside))
	p.do(syscall.SYS_CAPSET, p.words(capVersion3), p.words(0, 0, 0))
	p.doing = "no_new_privs"
	p.do(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0)
	// Dropping privileges may have made the process readable again.
	p.do(syscall.SYS_PRCTL, prSetDumpable, 0, 0, 0, 0)
}

// confine gives up capabilities and applies Landlock and seccomp.
func (p *Program) confine(plan *Plan) {
	restricted := plan.FS|plan.Scope != 0
	ruleset := p.slot()
	if restricted {
		p.doing = "landlock"
		p.do(sysLandlockCreate, p.words(plan.FS, 0, plan.Scope), 24, 0).to(ruleset)
		for _, r := range plan.Rules {
			p.rule(plan, r, ruleset)
		}
	}
	p.powerless(plan.Init)
	if restricted {
		p.doing = "landlock"
		p.do(sysLandlockRestrict, ruleset, 0)
		p.close(ruleset)
	}
	if len(plan.Filter) > 0 {
		p.doing = "seccomp"
		filter := p.words(uint64(len(plan.Filter)/8), p.put(plan.Filter))
		if !plan.Supervise {
			p.do(sysSeccomp, seccompSetModeFilter, 0, filter)
			return
		}
		given := p.rights()
		p.do(sysSeccomp, seccompSetModeFilter, seccompNewListener, filter).to(given.fd())
		p.send(Filtered, given)
		if len(plan.Args) == 0 {
			p.connect()
		}
	}
}

// connect fails unless the parent answers the calls of Filter. It connects to an abstract socket that nothing has bound
// in this network namespace. The parent reads this process, which it could not do while it is as closed as launchers
// are.
func (p *Program) connect() {
	p.doing = "a supervised connection"
	fd := p.slot()
	p.do(syscall.SYS_PRCTL, prSetDumpable, 1, 0, 0, 0)
	p.do(syscall.SYS_SOCKET, syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0).to(fd)
	p.do(syscall.SYS_CONNECT, fd, []byte{syscall.AF_UNIX, 0, 0, 'k', 'n', 'a', 'c', 'k'}, 8).or(syscall.ECONNREFUSED)
	p.close(fd)
}

// rule adds a Landlock rule for a path, which may be a directory or a file.
func (p *Program) rule(plan *Plan, r Rule, ruleset number) {
	p.doing = "landlock: " + r.Path
	end := p.label()
	for _, mask := range []uint64{plan.FS, landlockFileAccessMask} {
		// Eight bytes of access rights, four of descriptor.
		rule := p.words(r.Access&plan.FS&mask, 0xffffffff)
		fd := number(rule + 8)
		p.find(r.Path).to(fd).or(syscall.ENOENT, syscall.EACCES) // there is nothing to allow
		p.jump(end)
		c := p.do(sysLandlockAddRule, ruleset, landlockRulePath, rule, 0)
		if mask == plan.FS { // for a file the kernel refuses the rights of directories
			c.or(syscall.EINVAL).then = jumpIfDone
			p.jump(end)
		}
	}
	p.place(end)
}
