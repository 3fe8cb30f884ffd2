//go:build !linux && !darwin

package line

import "os"

// flush drops the input that a terminal holds, where that is possible.
func flush(*os.File) {}
