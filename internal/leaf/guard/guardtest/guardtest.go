// Package guardtest provides a resolver for tests of what follows the addresses of strangers.
package guardtest

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
)

// Resolver returns a resolver that asks answer for the addresses of a name. No network is used. answer may be called by
// several goroutines at a time.
func Resolver(answer func(name string) []string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		a, b := net.Pipe()
		go serveNames(b, answer)
		return a, nil
	}}
}

// serveNames answers DNS queries as they are sent over TCP: a length before each message.
func serveNames(c net.Conn, answer func(name string) []string) {
	defer c.Close()
	for {
		var size uint16
		if binary.Read(c, binary.BigEndian, &size) != nil {
			return
		}
		query := make([]byte, size)
		if _, err := io.ReadFull(c, query); err != nil {
			return
		}
		var labels []string
		i := 12
		for query[i] != 0 {
			n := int(query[i])
			labels = append(labels, string(query[i+1:i+1+n]))
			i += 1 + n
		}
		question := query[12 : i+5]
		kind := binary.BigEndian.Uint16(query[i+1:])
		var records []byte
		count := uint16(0)
		for _, text := range answer(strings.Join(labels, ".")) {
			addr := netip.MustParseAddr(text)
			if addr.Is4() != (kind == 1) {
				continue
			}
			records = append(records, 0xc0, 12)
			records = binary.BigEndian.AppendUint16(records, kind)
			records = binary.BigEndian.AppendUint16(records, 1)
			records = binary.BigEndian.AppendUint32(records, 0)
			records = binary.BigEndian.AppendUint16(records, uint16(len(addr.AsSlice())))
			records = append(records, addr.AsSlice()...)
			count++
		}
		msg := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1}, byte(count>>8), byte(count), 0, 0, 0, 0)
		msg = append(append(msg, question...), records...)
		out := binary.BigEndian.AppendUint16(nil, uint16(len(msg)))
		if _, err := c.Write(append(out, msg...)); err != nil {
			return
		}
	}
}
