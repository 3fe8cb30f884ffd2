package work

import (
	"context"
	"os"
)

// fence does nothing: here only the lock of the session keeps two processes of a run apart.
func fence(context.Context, string, int64) (*os.File, error) { return nil, nil }
