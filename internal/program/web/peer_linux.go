package web

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
)

// ofThisUser reports whether the program at the other end of a connection runs as this user, or as root, which may read
// everything anyway. Arguments of programs, such as the address in that of a browser that is started, can be read by
// every user of the machine; without this, another could be faster than the browser.
func ofThisUser(r *http.Request) bool {
	peer, err := net.ResolveTCPAddr("tcp", r.RemoteAddr)
	here, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	if err != nil || !ok {
		return false
	}
	known := false
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		data, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		known = true
		if uid, ok := ownerOf(string(data), peer, here); ok {
			return uid == fmt.Sprint(os.Getuid()) || uid == "0"
		}
	}
	return !known // without /proc the token alone decides, as on other systems
}

// ownerOf finds the user of an open socket in a table of the kernel. One that is closed has no user there.
func ownerOf(table string, local, remote *net.TCPAddr) (uid string, ok bool) {
	const established = "01"
	for line := range strings.Lines(table) {
		// sl local_address rem_address st tx_queue:rx_queue tr:when retrnsmt uid …
		f := strings.Fields(line)
		if len(f) > 7 && f[3] == established && isAddress(f[1], local) && isAddress(f[2], remote) {
			return f[7], true
		}
	}
	return "", false
}

// isAddress reports whether text is an address as the kernel's tables have it; a socket of version 6 has one of version
// 4 mapped.
func isAddress(text string, a *net.TCPAddr) bool {
	return text == fmt.Sprintf("%s:%04X", kernelAddress(a.IP.To4()), a.Port) ||
		text == fmt.Sprintf("%s:%04X", kernelAddress(a.IP.To16()), a.Port)
}

// kernelAddress returns the words of an address in the order of the machine.
func kernelAddress(ip net.IP) string {
	text := ""
	for ; len(ip) >= 4; ip = ip[4:] {
		text += fmt.Sprintf("%08X", binary.NativeEndian.Uint32(ip))
	}
	return text
}
