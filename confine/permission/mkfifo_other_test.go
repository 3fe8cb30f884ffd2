//go:build !unix

package permission_test

import "errors"

func mkfifo(string) error { return errors.ErrUnsupported }
