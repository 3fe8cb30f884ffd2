package workspace

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Parse opens the workspace at an address:
//
//	""                        the current directory
//	dir, file:///dir          a directory on this machine
//	ssh://[user@]host[:port]/dir
//	                          a directory on another machine; without /dir the home directory
//	docker://container/dir    a directory in a running container, with `docker exec -i`
//	podman://container/dir    the same with podman
//
// environ is the environment of the user whose keys, known hosts and containers are used, and the
// environment of commands on this machine; nil means that of the process.
//
// The caller must close the workspace. ctx limits only the time to open it.
func Parse(ctx context.Context, place string, environ []string) (Workspace, error) {
	scheme, _, ok := strings.Cut(place, "://")
	if !ok {
		return local(place, environ)
	}
	u, err := url.Parse(place)
	if err != nil {
		return nil, err
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%s: unexpected ? or #: write them as %%3F and %%23", place)
	}
	switch scheme {
	case "file":
		if u.Host != "" && u.Host != "localhost" {
			return nil, fmt.Errorf("%s: a file is on this machine: write file:///dir", place)
		}
		return local(filepath.FromSlash(u.Path), environ)
	case "ssh":
		if u.Hostname() == "" {
			return nil, fmt.Errorf("%s: no host: write ssh://host/dir", place)
		}
		if _, has := u.User.Password(); has {
			return nil, fmt.Errorf("ssh://%s: a password in the URL is not accepted: use a key or the agent", u.Host)
		}
		return DialSSH(ctx, SSHOptions{Host: u.Hostname(), Port: u.Port(), User: u.User.Username(), Dir: u.Path,
			Environ: environ})
	case "docker", "podman":
		if u.Host == "" || u.User != nil {
			return nil, fmt.Errorf("%s: write %s://container/dir", place, scheme)
		}
		if !isContainerName(u.Host) {
			return nil, fmt.Errorf("%s: %q is not a valid container name: letters, digits, dots, - and _, the first a letter "+
				"or a digit", place, u.Host)
		}
		if u.Path == "" {
			return nil, fmt.Errorf("%s: no directory: write %s://%s/dir", place, scheme, u.Host)
		}
		return NewContainer(ctx, []string{scheme, "exec", "-i", u.Host}, path.Clean(u.Path), environ)
	}
	return nil, fmt.Errorf("%s: unknown kind of workspace %q: a directory, ssh://host/dir, docker://container/dir or "+
		"podman://container/dir", place, scheme)
}

// isContainerName reports whether docker accepts s as the name of a container. Other text could be
// taken for an option of the command that gets it as an argument.
func isContainerName(s string) bool {
	for i, r := range s {
		alphanumeric := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		if !alphanumeric && (i == 0 || !strings.ContainsRune("_.-", r)) {
			return false
		}
	}
	return s != ""
}

func local(dir string, environ []string) (Workspace, error) {
	if dir == "" {
		var err error
		if dir, err = os.Getwd(); err != nil {
			return nil, err
		}
	}
	l, err := NewLocal(dir)
	if err != nil {
		return nil, err
	}
	l.Environ = environ
	return l, nil
}
