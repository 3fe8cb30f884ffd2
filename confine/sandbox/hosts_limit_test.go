package sandbox

import (
	"context"
	"errors"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/knack-agent/knack/confine/workspace"
)

// TestHostLimit: a command whose hosts are limited reaches no other, whatever else opens it, and these without a
// question only where the user agreed.
func TestHostLimit(t *testing.T) {
	var asked []workspace.Destination
	reach := func(_ context.Context, to workspace.Destination) error {
		asked = append(asked, to)
		return nil
	}
	for _, open := range []bool{true, false} {
		asked = nil
		c := &workspace.Command{Limits: []workspace.Limit{{Hosts: []string{"api.example.com", "*.example.org:8443"}, Open: open}},
			Allow: workspace.Allowance{Hosts: []string{"evil.example.com", "127.0.0.1:5432"}, Reach: reach}}
		p := Policy{Network: true, Hosts: []string{"evil.example.com", "localhost:80"}}.limitedBy(c)
		if p.Network || !slices.Equal(p.Hosts, []string{"evil.example.com"}) || len(c.Allow.Hosts) != 1 {
			t.Errorf("%+v, %q", p, c.Allow.Hosts)
		}
		try := func(host, port string, address netip.Addr) error {
			return c.Allow.Reach(t.Context(), workspace.Destination{Host: host, Port: port, Address: address})
		}
		inside := netip.MustParseAddr("10.0.0.1")
		for _, err := range []error{try("api.example.com", "443", netip.Addr{}), try("api.example.com", "443", inside),
			try("a.example.org", "8443", netip.Addr{})} {
			if err != nil {
				t.Error(err)
			}
		}
		if len(asked) != 3 || asked[0].Listed != open || asked[1].Listed || asked[2].Listed != open {
			t.Errorf("open %t: %+v", open, asked)
		}
		for _, host := range []string{"evil.example.com", "example.com", "localhost", "127.0.0.1", "xapi.example.com",
			"a.example.org"} {
			err := try(host, "443", netip.Addr{})
			if err == nil || !strings.Contains(err.Error(), "a secret that is for api.example.com, *.example.org:8443 only") {
				t.Errorf("%s: %v", host, err)
			}
		}
	}
	c := &workspace.Command{Limits: []workspace.Limit{{Hosts: []string{}}}}
	Policy{}.limitedBy(c)
	if err := c.Allow.Reach(t.Context(), workspace.Destination{Host: "a", Port: "1", Listed: true}); err == nil {
		t.Error("no host at all reaches one")
	}
	box := New(Policy{Dir: t.TempDir()}, Off)
	defer box.Close()
	if _, err := box.Confine(exec.Command("true"), c); !errors.Is(err, workspace.ErrLimits) {
		t.Errorf("without a sandbox: %v", err)
	}
}
