//go:build !unix

package userdirs

// OwnedByUser returns true: on this system directories have no modes, so directories above a
// repository count as the user's.
func OwnedByUser(string) bool { return true }

// CheckOwned returns nil: on this system files have no modes, so the files in the user's directories count as the
// user's.
func CheckOwned(string) error { return nil }

// CheckPrivate returns nil, for the same reason.
func CheckPrivate(string) error { return nil }

// CheckClosed is CheckOwned for a file that may belong to the system.
func CheckClosed(string) error { return nil }
