//go:build linux && (amd64 || arm64)

package sandbox

import (
	"net"
	"os"
)

// serve takes a listening socket that the launcher made.
func (p *proxy) serve(fd int) {
	f := os.NewFile(uintptr(fd), "listener")
	l, err := net.FileListener(f)
	f.Close()
	if err == nil {
		p.accept(l)
	}
}
