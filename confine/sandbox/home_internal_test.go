package sandbox

import "testing"

// TestExpandHome: ~user is not a directory below the home of this user.
func TestExpandHome(t *testing.T) {
	for path, want := range map[string]string{"~/x": "/home/u/x", "~": "/home/u", "~user/x": "", "/x": "/x"} {
		if got := expand(path, "/home/u"); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if got := expand("~/x", ""); got != "" {
		t.Errorf("without a home directory: %q", got)
	}
}
