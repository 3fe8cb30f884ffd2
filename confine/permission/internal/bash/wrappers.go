package bash

import (
	"slices"
	"strings"
)

// A runner is a program that runs the command in its arguments. Its own options must be parsed to
// find where that command begins.
type runner struct {
	names  string
	sub    string // subcommands that run a command, separated by commas; each may be several words; "": the program itself
	plain  string // letters of options without a value
	valued string // letters of options with a value
	long   string // long options; those that end in "=" have a value
	words  int    // number of words between the options and the command
	number bool   // an option may be a number, such as -5
	wraps  bool   // it does nothing else, so it needs no permission of its own

	opaque string // why the command cannot be found, in place of the fields from plain to wraps
	code   bool   // its words may be shell code: they are parsed, but only for deny rules
}

var runners = table[runner]{names: func(r *runner) string { return r.names }, rows: []runner{
	{names: "timeout", plain: "v", valued: "ks", words: 1, wraps: true,
		long: "--kill-after= --signal= --verbose --foreground --preserve-status"},
	{names: "time", plain: "pv", wraps: true},
	{names: "nice", valued: "n", long: "--adjustment=", number: true, wraps: true},
	{names: "nohup builtin", wraps: true},
	{names: "stdbuf", valued: "ioe", long: "--input= --output= --error=", wraps: true},
	{names: "command", plain: "p", wraps: true}, // -v and -V: see runsNothing
	{names: "exec", plain: "cl", valued: "a"},
	{names: "sudo", plain: "AbEHknPS", valued: "CDghpRTtUur",
		long: "--user= --group= --non-interactive --preserve-env --set-home --stdin"},
	{names: "doas", plain: "nL", valued: "uC"},
	{names: "setsid", plain: "cfw", long: "--fork --wait --ctty"},
	{names: "ionice", plain: "t", valued: "cn", long: "--class= --classdata= --ignore"},
	{names: "busybox toybox catchsegv faketime unbuffer caffeinate chronic ts c8 nyc ccache distcc sccache icecc bear " +
		"scan-build intercept-build eatmydata retry torify tsocks tini dumb-init ssh-agent dbus-launch"},
	{names: "gosu su-exec setuidgid s6-setuidgid envdir", words: 1},
	// Package managers and version managers.
	{names: "npx bunx pnpx uvx", plain: "yq", long: "--yes --no --no-install --quiet --prefer-offline"},
	{names: "npm pnpm yarn bun", sub: "exec, x, dlx", plain: "yq", long: "--yes"},
	{names: "npm", sub: "explore", words: 1},
	{names: "corepack", sub: "npx, npm exec, pnpm exec, pnpm dlx, yarn exec, yarn dlx"},
	{names: "bundle mise rtx asdf", sub: "exec, x", plain: "yq", long: "--yes"},
	{names: "rbenv pyenv nodenv goenv jenv fnm", sub: "exec"},
	{names: "volta", sub: "run"},
	{names: "rustup", sub: "run", words: 1},
	{names: "uv pipx poetry pipenv pdm hatch rye pixi devbox dotenv doppler op foreman honcho teller infisical",
		sub: "run, tool run, env run", plain: "yq", long: "--yes"},
	{names: "lerna nx composer stack cabal opam gem tox", sub: "exec, e", plain: "q", valued: "e"},
	{names: "direnv aws-vault chamber", sub: "exec", words: 1},
	{names: "dotenv"},
	{names: "docker podman nerdctl docker-compose podman-compose", sub: "exec, container exec, compose exec",
		plain: "itdT", valued: "uwe", words: 1,
		long: "--interactive --tty --detach --user= --workdir= --env= --index= --privileged"},
	// What these run is not analysed.
	{names: "watch su script ssh parallel flock", opaque: reasonAnything, code: true},
	{names: "runuser chroot unshare nsenter chrt taskset strace ltrace gdb perf valgrind rr entr nodemon at batch " +
		"systemd-run expect socat nc ncat netcat telnet rsh mosh sshpass pkexec dbus-run-session xvfb-run firejail bwrap " +
		"proot fakeroot prlimit setarch linux32 linux64 setpriv capsh cgexec numactl daemon start-stop-daemon inotifywait " +
		"watchman watchexec hyperfine tmux screen dtach abduco zellij run-parts rlwrap torsocks proxychains proxychains4 " +
		"ld.so ed ex vi vim nvim view emacs less more most man crontab make-kpkg sem xe rush pexec nsjail hwclock run0 " +
		"machinectl nix-shell lldb sudoedit sops concurrently cross-env-shell dotenvx env-cmd guix flox lima " +
		"limactl lxc multipass orb colima wsl adb xcrun osascript cmd wine wine64 gpg-agent xterm gnome-terminal konsole " +
		"timelimit chpst softlimit choom coreutils uclampset pidproxy i386 x86_64 datefudge libtool ptyget sftp cdk " +
		"tsc-watch lftp ansible ansible-console", opaque: reasonAnything},
	{names: "nix", sub: "run, shell, develop", opaque: reasonAnything},
	{names: "cargo", sub: "watch", opaque: reasonAnything},
	{names: "poetry pipenv pdm hatch pixi devbox devenv", sub: "shell", opaque: reasonAnything},
	{names: "conda mamba micromamba minikube vagrant flyctl fly heroku dagger netlify", sub: "run, ssh, dev:exec",
		opaque: reasonAnything},
	{names: "mix jj podman firebase", sub: "cmd, util, unshare, machine, emulators:exec", opaque: reasonAnything},
	{names: "gh glab hub", sub: "alias, extension, extensions, ext, config, codespace, cs",
		opaque: "it changes what gh runs, or runs commands elsewhere"},
	{names: "coproc alias enable bind complete compgen compopt hash fc history let mapfile readarray caller",
		opaque: "it changes what names mean, or runs the content of its words"},
	// Reached only after command or builtin, or if the name is quoted:
	{names: "export declare typeset local readonly nameref", opaque: "it may run the content of a value"},
}}

const reasonAnything = "it can run any command"

const reasonOptions = "its options are not understood"

// runs handles commands that run other commands. If these cannot be determined, the command is
// marked as opaque.
func (a *analysis) runs(c *SimpleCommand, base string) bool {
	if a.special(c, base) || runsNothing(c, base) {
		return true
	}
	for _, r := range runners.all(base) {
		from := r.from(c.Words)
		if from == 0 {
			continue
		}
		if c.Opaque = r.opaque; r.opaque == "" {
			a.unwrap(c, r, from)
		}
		for i := 1; r.code && i < min(len(c.Words), 8); i++ {
			if v, ok := plainJoin(c.Words[i:]); ok {
				c.Inner = append(c.Inner, Inner{a.code(v), -1})
			}
		}
		return true
	}
	switch base {
	case "docker", "podman", "nerdctl":
		if v, ok := c.Words[1%len(c.Words)].Value(); !ok || strings.HasPrefix(v, "-") {
			c.Opaque = "an option comes before the subcommand"
			return true
		}
	}
	if strings.HasPrefix(base, "ld-linux") || strings.HasPrefix(base, "ld-musl") {
		c.Opaque = "it can run any program"
		return true
	}
	return false
}

// special handles commands that contain other commands in an unusual form.
func (a *analysis) special(c *SimpleCommand, base string) bool {
	switch base {
	case "env", "cross-env":
		a.env(c)
	case "xargs":
		a.xargs(c)
	case "find":
		a.find(c)
	case "fd", "fdfind":
		a.fd(c)
	case "eval":
		a.eval(c)
	case "source", ".":
		a.sourced(c)
	case "trap":
		a.trap(c)
	case "kubectl", "oc":
		a.kubectl(c)
	default:
		if !listed(posixShells+" "+otherShells, base) {
			return false
		}
		a.shell(c)
	}
	return true
}

// from returns the index after the words of a subcommand that runs a command, 0 if words contain none.
func (r *runner) from(words []Word) int {
	for sub := range strings.SplitSeq(r.sub, ",") {
		if i := subcommand(words, sub); i > 0 {
			return i
		}
	}
	return 0
}

// subcommand returns the index after the words of a subcommand, 0 if words do not name it. Options may come before each
// of them, and a word after an option may be its value.
func subcommand(words []Word, sub string) int {
	i := 1
	for name := range strings.FieldsSeq(sub) {
		for maybeValue := false; ; i++ {
			if i >= len(words) {
				return 0
			}
			if words[i].Is(name) {
				break
			}
			v, ok := words[i].Value()
			option := len(v) > 1 && v[0] == '-' || !ok && words[i].Dash
			if v == "--" || !option && !maybeValue && !listed(yarnWorkspaces, v) {
				return 0
			}
			maybeValue = option || v == "workspace"
		}
		i++
	}
	return i
}

// yarnWorkspaces are subcommands of yarn before another one.
const yarnWorkspaces = "workspace workspaces foreach"

// runsNothing handles uses of runners that run nothing.
func runsNothing(c *SimpleCommand, base string) bool {
	switch base {
	case "command":
		i := skipOptions(c.Words, 1, "pvV", "", "")
		if i <= 1 || !strings.ContainsAny(join(c.Words[1:i]), "vV") {
			return false
		}
	case "exec": // without a command, exec only applies its redirections
		if skipOptions(c.Words, 1, "cl", "a", "") != len(c.Words) {
			return false
		}
	case "hash":
		if len(c.Words) != 2 || !c.Words[1].Is("-r") {
			return false
		}
	case "alias":
		if len(c.Words) != 1 {
			return false
		}
	default:
		return false
	}
	c.Effect = Reads
	return true
}

// unwrap finds the command of a runner, whose options begin at word from.
func (a *analysis) unwrap(c *SimpleCommand, r *runner, from int) {
	i := from
	if v, ok := c.Words[min(from, len(c.Words)-1)].Value(); r.number && from < len(c.Words) && ok && len(v) > 1 &&
		v[0] == '-' && Digits(v[1:]) {
		i++
	} else if i = skipOptions(c.Words, from, r.plain, r.valued, r.long); i >= 0 {
		for range r.words {
			if i >= len(c.Words) || c.Words[i].Values == nil && r.wraps {
				i = -1
				break
			}
			i++
		}
	}
	switch {
	case i < 0:
		c.Opaque = reasonOptions
	case i < len(c.Words):
		if r.wraps {
			c.Effect = Wraps
		}
		c.Inner = append(c.Inner, Inner{a.child(c.Words[i:], c.At), i})
	}
}

// skipOptions returns the index after the options that begin at word from. The options are letters
// without (plain) and with a value (valued), and long ones. -1: an option is unknown.
func skipOptions(words []Word, from int, plain, valued, long string) int {
	i := from
	for ; i < len(words); i++ {
		v, ok := words[i].Value()
		if !ok {
			if words[i].Dash || words[i].Values == nil && words[i].Prefix == "" {
				return -1
			}
			return i
		}
		if v == "--" {
			return i + 1
		}
		if len(v) < 2 || v[0] != '-' {
			return i
		}
		if strings.HasPrefix(v, "--") {
			switch name, _, has := strings.Cut(v, "="); {
			case slices.Contains(strings.Fields(long), name):
			case !slices.Contains(strings.Fields(long), name+"="):
				return -1
			case !has:
				i++
			}
			continue
		}
		for j := 1; j < len(v); j++ {
			if strings.IndexByte(valued, v[j]) >= 0 {
				if j == len(v)-1 {
					i++
				}
				break
			}
			if strings.IndexByte(plain, v[j]) < 0 {
				return -1
			}
		}
	}
	if i > len(words) {
		return -1 // a value is missing
	}
	return i
}

// kubectl finds the command of kubectl exec and kubectl debug, which follows --.
func (a *analysis) kubectl(c *SimpleCommand) {
	if subcommand(c.Words, "exec") == 0 && subcommand(c.Words, "debug") == 0 {
		return
	}
	for i := range c.Words {
		if c.Words[i].Is("--") {
			if i+1 < len(c.Words) {
				c.Inner = append(c.Inner, Inner{a.child(c.Words[i+1:], c.At), i + 1})
			}
			return
		}
	}
	c.Opaque = "the command inside cannot be found"
}

func (a *analysis) eval(c *SimpleCommand) {
	rest := c.Words[1:]
	if len(rest) > 0 && rest[0].Is("--") {
		rest = rest[1:]
	}
	text, ok := plainJoin(rest)
	if !ok {
		c.Opaque = "what it evaluates is not known before it runs"
		return
	}
	c.Inner = append(c.Inner, Inner{a.code(text), -1})
}

func (a *analysis) sourced(c *SimpleCommand) {
	if len(c.Words) > 1 {
		c.Inner = append(c.Inner, Inner{a.child(c.Words[1:], c.At), 1})
	}
	a.script.Moves = append(a.script.Moves, Chdir{Any: true})
}

func (a *analysis) trap(c *SimpleCommand) {
	i := skipOptions(c.Words, 1, "lp", "", "")
	if i < 0 || i >= len(c.Words)-1 || c.Words[i].Is("-", "") {
		if i >= 0 {
			c.Effect = Reads
		}
		return
	}
	text, ok := c.Words[i].Value()
	if !ok {
		c.Opaque = "what it will run is not known"
		return
	}
	c.Effect = Wraps
	late := a.code(text)
	if late.Loose = true; len(a.entries) > 1 {
		late.Moves = append(late.Moves, Chdir{Any: true}) // it runs later, in an unknown directory
	}
	c.Inner = append(c.Inner, Inner{late, -1})
}
