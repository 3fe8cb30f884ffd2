package coding

import (
	"context"

	"github.com/knack-agent/knack/confine/permission"
)

// secretIn returns a func that reports whether reading a file requires asking the user. It is for many files.
func (o FileOptions) secretIn(ws pathFS) func(abs string) bool {
	if o.Secret != nil {
		return o.Secret
	}
	if local, ok := ws.(homeFS); ok {
		return permission.PathContext{Home: local.Home()}.SecretFunc()
	}
	// The files are elsewhere, so nothing looks into them here.
	elsewhere := func(_ context.Context, path string) (string, error) { return path, nil }
	return permission.PathContext{Resolve: elsewhere}.SecretFunc()
}
