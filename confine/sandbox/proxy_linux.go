//go:build linux && (amd64 || arm64)

package sandbox

import (
	"net"
	"os"
)

// serve accepts connections on a listening socket that the launcher created.
func (p *proxy) serve(fd int) {
	f := os.NewFile(uintptr(fd), "listener")
	l, err := net.FileListener(f)
	f.Close()
	if err == nil {
		p.accept(l)
	}
}
