package mcp

import "testing"

// TestWriteHint: what the sandbox refused is found in the ways in which programs print it.
func TestWriteHint(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"EROFS: read-only file system, open '/home/u/memory.jsonl'":                                           "/home/u/memory.jsonl",
		"Error: EROFS: read-only file system, copyfile '/a' -> '/home/b'":                                     "/home/b",
		"[Errno 30] Read-only file system: \"/var/x\"":                                                        "/var/x",
		"OSError: [Errno 30] Read-only file system: '/home/u/a b/c'":                                          "/home/u/a b/c",
		"mkdir: Read-only file system":                                                                        "-",
		"mkdir: cannot create directory ‘/home/u/x’: Read-only file system\n":                                 "/home/u/x",
		"/bin/sh: 1: cannot create /home/u/x: Read-only file system":                                          "/home/u/x",
		"open /home/u/x: read-only file system":                                                               "/home/u/x",
		"java.io.FileNotFoundException: /home/u/x (Read-only file system)":                                    "/home/u/x",
		"could not write /home/u/x: Read-only file system (os error 30)":                                      "/home/u/x",
		"starting\n{ [Error]\n  errno: -30,\n  code: 'EROFS',\n  syscall: 'open',\n  path: '/home/u/x'\n}":    "/home/u/x",
		`{"errno":-30,"code":"EROFS","syscall":"mkdir","path":"/home/u/y"}`:                                   "/home/u/y",
		"ENOENT: no such file or directory, mkdir '/home/u/.cache/x/a'":                                       "mkdir /home/u/.cache/x/a",
		"ENOENT: no such file or directory, open '/x'":                                                        "missing /x",
		"FileNotFoundError: [Errno 2] No such file or directory: '/home/u/.a/b'":                              "missing /home/u/.a/b",
		"ENOENT: no such file or directory, mkdir '/a/b'\nError: EROFS: read-only file system, mkdir '/c/d/'": "/c/d",
		"SqliteError: attempt to write a readonly database":                                                   "-",
		"ENOENT: no such file or directory, open 'x'":                                                         "",
		"### Error\nChromium sandboxing failed!\n":                                                            "browser",
		"Protocol error (Target.setDiscoverTargets): Target closed\nCause: ":                                  "browser",
		"404: there is no such page":                                                                          "",
	} {
		u, found := unwritten(text)
		got := u.Path
		switch {
		case u.Mkdir:
			got = "mkdir " + u.Path
		case u.Missing:
			got = "missing " + u.Path
		case found && u.Browser:
			got = "browser"
		case found && u.Path == "":
			got = "-"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
