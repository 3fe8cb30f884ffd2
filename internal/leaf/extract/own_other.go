//go:build !unix && !windows

package extract

import "io/fs"

const noFollow = 0

func own(string) error { return nil }

func private(fs.FileInfo, string) error { return nil }
