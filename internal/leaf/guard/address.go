package guard

import (
	"net"
	"net/netip"
	"slices"
	"sync"
)

// A Kind says why an address is not a public one.
type Kind string

const (
	Public    Kind = ""
	Loopback  Kind = "loopback"
	Private   Kind = "private" // also shared by the customers of a provider (CGNAT)
	LinkLocal Kind = "link-local"
	Multicast Kind = "multicast"
	Reserved  Kind = "reserved"
	Metadata  Kind = "cloud metadata"
	Own       Kind = "of this machine" // a public address of one of its interfaces
)

// Inside reports whether addresses of the kind are this machine's, of its network, or at which clouds serve
// credentials. Reserved ones are not: some proxies give names such addresses.
func (k Kind) Inside() bool {
	switch k {
	case Loopback, Private, LinkLocal, Metadata, Own:
		return true
	}
	return false
}

type block struct {
	kind     Kind
	prefixes []netip.Prefix
}

func blocks(kind Kind, prefixes ...string) block {
	b := block{kind: kind}
	for _, p := range prefixes {
		b.prefixes = append(b.prefixes, netip.MustParsePrefix(p))
	}
	return b
}

// special are the addresses that are not public, from the registries of special-purpose addresses (RFC 6890) and the
// documents of cloud providers. The first match counts. IPv6 addresses outside 2000::/3 that are not in it are
// reserved.
var special = sync.OnceValue(func() []block {
	return []block{
		blocks(Metadata, "169.254.169.254/32", "169.254.170.2/32", "100.100.100.200/32", "168.63.129.16/32",
			"192.0.0.192/32", "fd00:ec2::254/128", "fd20:ce::254/128"),
		blocks(Loopback, "127.0.0.0/8", "::1/128"),
		blocks(Private, "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7", "64:ff9b:1::/48"),
		blocks(LinkLocal, "169.254.0.0/16", "fe80::/10"),
		blocks(Multicast, "224.0.0.0/4", "ff00::/8"),
		// This network, protocol assignments, 6to4 relays, benchmarks, documentation, future use; the documentation
		// and the protocol assignments of IPv6, of which Teredo is one.
		blocks(Reserved, "0.0.0.0/8", "192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "192.0.2.0/24", "198.51.100.0/24",
			"203.0.113.0/24", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "3fff::/20"),
	}
})

var (
	global = netip.MustParsePrefix("2000::/3")
	sixTo4 = netip.MustParsePrefix("2002::/16")
	// The prefixes before an IPv4 address: compatible, translated (SIIT), and NAT64. Networks without IPv4 reach public
	// servers through NAT64. Mapped addresses are unmapped first.
	embedding = [...]netip.Prefix{netip.MustParsePrefix("::/96"), netip.MustParsePrefix("::ffff:0:0:0/96"),
		netip.MustParsePrefix("64:ff9b::/96")}
)

// KindOf returns the kind of an address. An IPv6 address that carries an IPv4 address (mapped, compatible, translated,
// 6to4, NAT64) has the kind of that address. The zero Addr is Reserved. It does not look at the machine's interfaces,
// so its result is never Own.
func KindOf(a netip.Addr) Kind {
	a = a.Unmap().WithZone("")
	if !a.IsValid() {
		return Reserved
	}
	for _, b := range special() {
		if slices.ContainsFunc(b.prefixes, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return b.kind
		}
	}
	if a.Is4() {
		return Public
	}
	bytes := a.As16()
	if sixTo4.Contains(a) {
		return KindOf(netip.AddrFrom4([4]byte(bytes[2:6])))
	}
	if slices.ContainsFunc(embedding[:], func(p netip.Prefix) bool { return p.Contains(a) }) {
		return KindOf(netip.AddrFrom4([4]byte(bytes[12:16])))
	}
	if !global.Contains(a) {
		return Reserved
	}
	return Public
}

// kindHere is KindOf, but finds the public addresses of this machine too: its programs may listen on all interfaces,
// and a firewall between them and the world does not see a connection that starts here.
func kindHere(a netip.Addr) Kind {
	if k := KindOf(a); k != Public {
		return k
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return Public
	}
	for _, o := range own {
		if n, ok := o.(*net.IPNet); ok && n.IP.Equal(a.Unmap().AsSlice()) {
			return Own
		}
	}
	return Public
}
