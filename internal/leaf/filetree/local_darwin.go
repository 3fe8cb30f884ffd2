package filetree

import "golang.org/x/sys/unix"

// localFS reports whether a file system is on a local disk.
func localFS(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Flags&unix.MNT_LOCAL != 0
}
