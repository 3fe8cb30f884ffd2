package workspace_test

import (
	"archive/tar"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/knack-agent/knack/confine/workspace"
	"github.com/knack-agent/knack/confine/workspace/workspacetest"
)

// TestDocker runs the conformance suite in a real container. Its image contains only this machine's statically linked
// busybox, so that no registry is needed.
func TestDocker(t *testing.T) {
	if testing.Short() {
		t.Skip("too slow for -short")
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("busybox is not installed")
	}
	if out, err := exec.Command("docker", "version").CombinedOutput(); err != nil {
		t.Skipf("docker does not work: %v: %s", err, firstLine(out))
	}
	container := "knack-test-" + strings.ToLower(strings.ReplaceAll(t.TempDir(), "/", "-"))[1:]
	image := container + ":1"
	docker(t, busyboxImage(t, busybox), "import", "-", image)
	t.Cleanup(func() { docker(t, nil, "rmi", "--force", image) })
	if out, err := exec.Command("docker", "run", "--rm", image, "/bin/sh", "-c",
		"stat -c %s /bin/sh").CombinedOutput(); err != nil {
		t.Skipf("no container can be started: %v: %s", err, firstLine(out))
	}
	docker(t, nil, "run", "--detach", "--network", "none", "--name", container, image, "/bin/sleep", "3600")
	t.Cleanup(func() { docker(t, nil, "rm", "--force", container) })

	var n atomic.Int64
	workspacetest.Test(t, func(t *testing.T) workspace.Workspace {
		dir := "/work" + string(rune('a'+n.Add(1)%26)) + strings.Repeat("x", int(n.Load()/26))
		docker(t, nil, "exec", container, "mkdir", "-p", dir)
		w, err := workspace.Parse(t.Context(), "docker://"+container+dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		return w
	})
}

func docker(t *testing.T, stdin []byte, args ...string) {
	t.Helper()
	cmd := exec.Command("docker", args...)
	cmd.Stdin = bytes.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("docker %s: %v: %s", args[0], err, out)
	}
}

// busyboxImage returns the archive of a root file system: busybox and its names.
func busyboxImage(t *testing.T, busybox string) []byte {
	t.Helper()
	program, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	list, err := exec.Command(busybox, "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h tar.Header, content []byte) {
		h.Size = int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	add(tar.Header{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755}, nil)
	add(tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, nil)
	add(tar.Header{Name: "bin/busybox", Mode: 0o755}, program)
	for _, name := range strings.Fields(string(list)) {
		if name != "busybox" {
			add(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + name, Linkname: "busybox", Mode: 0o777}, nil)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func firstLine(out []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}
