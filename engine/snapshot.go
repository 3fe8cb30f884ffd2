package engine

import (
	"cmp"

	"github.com/knack-agent/knack"
)

// describe adds to what computed skills see of the session what is not in its log.
func describe(s *Session, k *knack.Snapshot) {
	st := s.Status()
	k.Dir, k.Mode = s.engine.Project().Dir(), string(st.Mode)
	for _, q := range st.Waiting {
		k.Waiting = append(k.Waiting, cmp.Or(q.Title, q.Text))
	}
	for _, j := range st.Jobs {
		if j.Running {
			k.Jobs = append(k.Jobs, j.ID+": "+j.Line)
		}
	}
}
