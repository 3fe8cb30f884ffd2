package cli

import (
	"context"
	"fmt"

	"github.com/knack-agent/knack"
	"github.com/knack-agent/knack/eval/report"
	"github.com/knack-agent/knack/eval/suite"
)

// foundBy says how the program's own search finds the skill of a directory among others by the queries in its evals;
// "": it has none.
func foundBy(ctx context.Context, dir string, others []*knack.Skill) (string, error) {
	s, err := suite.Open(ctx, dir)
	if err != nil {
		return "", fmt.Errorf("its queries cannot be tried: %w", err)
	}
	s.Others = others
	r, err := s.Search(ctx, 2, 1)
	if err != nil || r.Routing == nil {
		return "", err
	}
	return report.Found(r), nil
}
