//go:build linux && (amd64 || arm64)

package sandbox

import (
	"os"
	"sync"
)

// kept are the user and the network namespace of a command that has ended, for
// one that comes later. No command can change them, since none has a capability
// in them; everything that ran in them is gone; and two commands never have the
// same ones at a time. What a command can leave behind elsewhere (files, System V
// memory, processes) belongs to namespaces that are made anew.
type kept struct{ users, network *os.File }

// A pool has the namespaces that no command uses. They end with this program,
// however it ends: nothing but its descriptors refers to them.
type pool struct {
	mu   sync.Mutex
	free []*kept
}

// maxKept bounds what is kept after commands that ran at the same time.
const maxKept = 4

// take returns namespaces that nobody else uses, nil if there are none.
func (p *pool) take() *kept {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		return nil
	}
	k := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	return k
}

// give keeps namespaces if they may be used again.
func (p *pool) give(k *kept, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !again || len(p.free) >= maxKept {
		k.users.Close()
		k.network.Close()
		return
	}
	p.free = append(p.free, k)
}
