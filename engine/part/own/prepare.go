package own

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/run/gate"
)

// prepare verifies the program and completes the command that runs it: its arguments, to which those of c are added, and
// what it may read.
func (p *Program) prepare(ws workspace.Workspace, c workspace.Command) (workspace.Command, error) {
	c.Args = append(slices.Clone(p.definition.Command), c.Args...)
	if err := p.unchanged(); err != nil {
		return c, err
	}
	// Nobody is asked before a process answers for a hook.
	if p.check != nil || p.definition.Type != "" || p.definition.outside() {
		if err := gate.OnlyApproved(c.Args, ws.Dir(), p.agreed()); err != nil {
			return c, fmt.Errorf("%s was not run: %w: put it into %s", p.Name, err, p.agreed())
		}
	}
	if p.program != "" {
		data, err := regular.Read(p.program, maxProgram)
		if err != nil {
			return c, err
		}
		if sha256.Sum256(data) != p.sum {
			return c, fmt.Errorf("%s has changed since it was read: it was not run. /reload reads it again", p.program)
		}
		if len(p.definition.Command) == 0 {
			c.Args = append([]string{p.program}, c.Args...)
		}
		real, err := filepath.EvalSymlinks(p.program)
		if err != nil {
			return c, err
		}
		c.Scripts = []workspace.Script{{Name: p.program, Path: real, Data: data}}
	}
	c.Allow.Read = []string{cmp.Or(p.dir, filepath.Dir(p.Path))}
	return ws.Prepare(c)
}

// unchanged returns an error if the files are no longer those that were approved. Nobody is asked about a call that it
// refuses.
func (p *Program) unchanged() error {
	if p.verify != nil {
		if err := p.verify(); err != nil {
			return fmt.Errorf("%s was not run: %w", p.Name, err)
		}
	}
	if p.check != nil {
		if err := p.approved(); err != nil {
			return fmt.Errorf("%s was not run: %w. /trust shows what changed, and asks", p.Name, err)
		}
	}
	return nil
}

// agreed returns the folder whose bytes somebody agreed to together with the program: all of a skill, which verify
// compares, and otherwise the folder of the definition.
func (p *Program) agreed() string {
	if p.verify != nil {
		return p.dir
	}
	return filepath.Dir(p.Path)
}
