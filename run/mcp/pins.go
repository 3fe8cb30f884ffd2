package mcp

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"

	"github.com/gofrs/flock"

	"github.com/knack-agent/knack/internal/leaf/atomicfile"
)

// pins are the hashes of allowed tool definitions, by the tool's name and the origin of its server.
// The user is asked again when a definition has changed, or when a server of another origin uses the
// name.
type pins struct {
	mu   sync.Mutex
	file string
	all  map[string]map[string]string // name → origin → hash
	err  error                        // reading the file failed: every definition counts as changed
}

func (p *pins) open(dir string) {
	p.all = map[string]map[string]string{}
	if dir == "" {
		return
	}
	p.file = filepath.Join(dir, "approved.json")
	p.all, p.err = p.read()
}

func (p *pins) read() (map[string]map[string]string, error) {
	all := map[string]map[string]string{}
	data, err := os.ReadFile(p.file)
	if os.IsNotExist(err) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	return all, err
}

func (p *pins) changed(name, origin, hash string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	known := p.all[name]
	return p.err != nil || len(known) > 0 && known[origin] != hash
}

// set records an allowed definition. If it cannot be stored, it is kept until the program ends.
func (p *pins) set(name, origin, hash string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all[name][origin] == hash && p.err == nil {
		return
	}
	if p.file != "" && os.MkdirAll(filepath.Dir(p.file), 0o700) == nil {
		lock := flock.New(p.file+".lock", flock.SetPermissions(0o600))
		if lock.Lock() == nil {
			defer lock.Unlock()
			if stored, err := p.read(); err == nil {
				p.all = stored
			}
		}
	}
	if p.all == nil {
		p.all = map[string]map[string]string{}
	}
	if p.all[name] == nil {
		p.all[name] = map[string]string{}
	}
	p.all[name][origin], p.err = hash, nil
	if data, err := json.MarshalIndent(p.all, "", " "); err == nil && p.file != "" {
		atomicfile.Write(p.file, append(data, '\n'), 0o600)
	}
}
