//go:build linux && (amd64 || arm64)

package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Testing the namespaces takes as long as running a command, so a success is cached until one of
// the files that influence it changes. An outdated cache never lets a command run unconfined: a
// launcher that cannot set up the sandbox starts nothing, and the cached result is removed.

// decides are the files whose content determines whether namespaces can be created.
var decides = []string{
	"/proc/sys/kernel/random/boot_id", "/proc/sys/kernel/osrelease", "/proc/sys/user/max_user_namespaces",
	"/proc/sys/kernel/unprivileged_userns_clone", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
	"/proc/self/attr/current", "/proc/self/uid_map",
}

// probed returns the file whose existence means that namespaces work; "": nothing is cached.
func (p *Policy) probed() string {
	if p.State == "" {
		return ""
	}
	h := sha256.New()
	for _, name := range decides {
		data, _ := os.ReadFile(name)
		fmt.Fprintf(h, "%s %q\n", name, data)
	}
	var st syscall.Stat_t
	if syscall.Stat("/proc/self/exe", &st) != nil {
		return ""
	}
	fmt.Fprintln(h, os.Geteuid(), os.Getegid(), st.Dev, st.Ino, st.Size, st.Mtim.Nano(), st.Ctim.Nano())
	return filepath.Join(p.State, "namespaces-"+hex.EncodeToString(h.Sum(nil)[:16]))
}

// The content of the cache file: the stub works as the launcher, and connections can be supervised.
const (
	byStub       = "stub "
	bySupervisor = "supervisor "
)

// remember caches that namespaces work and which launcher was used, and removes older results.
func remember(file, by string) {
	if file == "" || os.MkdirAll(filepath.Dir(file), 0o700) != nil {
		return
	}
	old, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "namespaces-*"))
	for _, name := range old {
		os.Remove(name)
	}
	os.WriteFile(file, []byte(by), 0o600)
}
