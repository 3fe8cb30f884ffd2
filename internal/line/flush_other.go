//go:build !linux && !darwin

package line

import "os"

// flush discards input that was typed and not read, where that is possible.
func flush(*os.File) {}
