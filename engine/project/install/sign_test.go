package install

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// A signer signs the lock of a pack.
type signer interface {
	sign(t *testing.T, dir string, lock []byte)
	public() string
}

type sshPen struct{ ssh.Signer }

func (p sshPen) public() string { return sshKey(p.PublicKey()) }
func (p sshPen) sign(t *testing.T, dir string, lock []byte) {
	sig, err := sshsig.Sign(bytes.NewReader(lock), p.Signer, sshsig.HashSHA512, Namespace)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{sshsigName: string(sshsig.Armor(sig))})
}

type miniPen struct {
	pub  minisign.PublicKey
	priv minisign.PrivateKey
}

func (p miniPen) public() string { return p.pub.String() }
func (p miniPen) sign(t *testing.T, dir string, lock []byte) {
	write(t, dir, map[string]string{minisigName: string(minisign.Sign(p.priv, lock))})
}

func pens(t *testing.T) map[string]func() signer {
	return map[string]func() signer{
		"ssh": func() signer {
			_, key, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			s, err := ssh.NewSignerFromKey(key)
			if err != nil {
				t.Fatal(err)
			}
			return sshPen{s}
		},
		"minisign": func() signer {
			pub, priv, err := minisign.GenerateKey(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			return miniPen{pub, priv}
		},
	}
}

// pack writes the lock of a pack and signs it; nil: it is not signed.
func pack(t *testing.T, dir string, by signer) {
	t.Helper()
	os.Remove(filepath.Join(dir, sshsigName))
	os.Remove(filepath.Join(dir, minisigName))
	st, err := store(t).Stage(t.Context(), local(dir), "x", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	data, err := st.Pack()
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, map[string]string{LockName: string(data)})
	if by != nil {
		by.sign(t, dir, data)
	}
}

// TestSigned: a signed pack is installed with its key, an update must have the same key, and a signature that does not
// fit is refused.
func TestSigned(t *testing.T) {
	for kind, generate := range pens(t) {
		t.Run(kind, func(t *testing.T) {
			author, other := generate(), generate()
			parse := func(s signer) Signer {
				k, err := ParseKey(s.public())
				if err != nil {
					t.Fatal(err)
				}
				return k
			}
			dir := demo(t)
			s := store(t)
			var known []Signer
			stage := func(keys ...Signer) (*Staged, error) {
				g := local(dir)
				g.Keys, g.Known = keys, known
				st, err := s.Stage(t.Context(), g, "x", nil)
				if err == nil {
					t.Cleanup(func() { st.Close() })
				}
				return st, err
			}
			refusedBy := func(err error, text string) {
				t.Helper()
				if bad := new(RefusedError); !errors.As(err, &bad) || !strings.Contains(err.Error(), text) {
					t.Errorf("%v, want a refusal with %q", err, text)
				}
			}
			if st, err := stage(); err != nil || st.Signers != nil {
				t.Fatal(st, err)
			}
			_, err := stage(parse(author))
			refusedBy(err, "it is not signed by")

			pack(t, dir, author)
			if kind == "minisign" { // the signature does not contain the key
				_, err := stage()
				refusedBy(err, "which is not known")
				write(t, dir, map[string]string{pubName: author.public()})
				pack(t, dir, author)
			}
			st, err := stage()
			if err != nil || len(st.Signers) != 1 || st.Signers[0].Key != parse(author).Key {
				t.Fatal(st, err)
			}
			if _, err := stage(parse(author)); err != nil {
				t.Fatal(err)
			}
			_, err = stage(parse(other))
			refusedBy(err, "it is not signed by")
			if err := s.Install(st, "demo@m"); err != nil {
				t.Fatal(err)
			}
			l, err := ReadLock(s.Lock)
			if err != nil {
				t.Fatal(err)
			}
			known = l.Plugins["demo@m"].Signers
			if len(known) != 1 {
				t.Fatal(known)
			}

			// Files that were not signed.
			write(t, dir, map[string]string{"x.sh*": "other"})
			_, err = stage()
			refusedBy(err, "changed: x.sh")
			write(t, dir, map[string]string{"x.sh*": "x", "more": "x"})
			_, err = stage()
			refusedBy(err, "added: more")

			// The same author again, and then somebody else, who also replaces the public key.
			pack(t, dir, author)
			if st, err = stage(); err != nil {
				t.Fatal(err)
			}
			if err := s.Install(st, "demo@m"); err != nil {
				t.Fatal(err)
			}
			if kind == "minisign" {
				write(t, dir, map[string]string{pubName: other.public()})
			}
			pack(t, dir, other)
			if st, err = stage(); err != nil {
				t.Fatal(err)
			}
			refusedBy(s.Install(st, "demo@m"), "it is signed by another key")
			if st, err = stage(parse(other)); err != nil { // the user says so
				t.Fatal(err)
			}
			if err := st.CheckSigner(l.Plugins["demo@m"]); err != nil {
				t.Error(err)
			}
			pack(t, dir, nil)
			if st, err = stage(); err != nil {
				t.Fatal(err)
			}
			refusedBy(s.Install(st, "demo@m"), "it is not signed any more")

			// A signature of something else, none at all, and no lock.
			other.sign(t, dir, []byte("else"))
			_, err = stage()
			refusedBy(err, "is not a signature of")
			write(t, dir, map[string]string{minisigName: "x"})
			_, err = stage()
			refusedBy(err, "sig")
			os.Remove(filepath.Join(dir, LockName))
			_, err = stage()
			refusedBy(err, "cannot be read")
		})
	}
}

// TestVerifyLock: the keys of a lock's first signature are remembered.
func TestVerifyLock(t *testing.T) {
	for kind, generate := range pens(t) {
		author, other := generate(), generate()
		s, dir := store(t), t.TempDir()
		path := filepath.Join(dir, LockName)
		check := func(want string, keys ...Signer) SignedLock {
			t.Helper()
			x, err := s.VerifyLock(path, keys)
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s: %v, want %q", kind, err, want)
			}
			return x
		}
		check("")
		write(t, dir, map[string]string{LockName: "text"})
		check("")
		key, err := ParseKey(author.public())
		if err != nil {
			t.Fatal(err)
		}
		check("it is not signed by", key)
		author.sign(t, dir, []byte("text"))
		if kind == "minisign" {
			write(t, dir, map[string]string{pubName: author.public()})
		}
		if x := check(""); !x.First || len(x.Signers) != 1 {
			t.Error(x)
		}
		if x := check("", key); x.First {
			t.Error(x)
		}
		if x := check(""); x.First {
			t.Error(x)
		}
		write(t, dir, map[string]string{LockName: "changed"})
		check("is not a signature of")
		if kind == "minisign" {
			write(t, dir, map[string]string{pubName: other.public()})
		}
		other.sign(t, dir, []byte("changed"))
		check("it is signed by another key")
		os.Remove(filepath.Join(dir, sshsigName))
		os.Remove(filepath.Join(dir, minisigName))
		check("it is not signed any more")
	}
}

// TestAllowedSigners: the file of ssh-keygen says whose a key is.
func TestAllowedSigners(t *testing.T) {
	key := pens(t)["ssh"]().(sshPen)
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for line, want := range map[string]string{
		"a@b KEY":                                    "a@b",
		"# a@b KEY":                                  "",
		"a@b,c@d KEY comment":                        "a@b,c@d",
		`a@b namespaces="git" KEY`:                   "",
		`a@b namespaces="git,knack-*" KEY`:           "a@b",
		`a@b cert-authority KEY`:                     "",
		`a@b valid-after="20260601" KEY`:             "",
		`a@b valid-after="20260401Z" KEY`:            "a@b",
		`a@b valid-before="202604010000Z" KEY`:       "",
		`a@b valid-before="20270401000000" KEY`:      "a@b",
		`a@b valid-before="x" KEY`:                   "",
		"x@y ssh-ed25519 AAAA\n\na@b KEY":            "a@b",
		"nobody " + pens(t)["ssh"]().public() + "\n": "",
	} {
		file := strings.ReplaceAll(line, "KEY", key.public())
		if got := allowedName([]byte(file), key.PublicKey(), now); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

// TestSSHKeygen: what ssh-keygen signs is a signature here.
func TestSSHKeygen(t *testing.T) {
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		t.Skip("no ssh-keygen")
	}
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ssh-keygen", args...).CombinedOutput(); err != nil {
			t.Skipf("ssh-keygen: %s", out) // an old one
		}
	}
	path := filepath.Join(dir, LockName)
	write(t, dir, map[string]string{LockName: "text"})
	run("-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, "key"))
	run("-Y", "sign", "-q", "-n", Namespace, "-f", filepath.Join(dir, "key"), path)
	s := store(t)
	pub, err := os.ReadFile(filepath.Join(dir, "key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Dir(s.Lock), map[string]string{"allowed_signers": "me@here " + string(pub)})
	x, err := s.VerifyLock(path, nil)
	if err != nil || len(x.Signers) != 1 || !strings.HasPrefix(x.Signers[0].String(), "me@here (ssh-ed25519 SHA256:") {
		t.Fatal(x, err)
	}
	if key, err := ParseKey(filepath.Join(dir, "key.pub")); err != nil || key.Key != x.Signers[0].Key {
		t.Fatal(key, err)
	}
	if _, err := ParseKey("nothing"); err == nil {
		t.Error("nothing is a key")
	}
}

// TestAttested: gh is asked about a lock that comes from GitHub.
func TestAttested(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a shell script takes the place of gh")
	}
	dir := write(t, t.TempDir(), map[string]string{LockName: "x", "gh*": "#!/bin/sh\n" +
		`[ "$1 $2 $4 $5" = "attestation verify --repo a/b" ] && grep -q x "$3" || exit 1
echo '[{"verificationResult":{"signature":{"certificate":{"buildSignerURI":"https://github.com/a/b/.github/workflows/w.yml"}}}}]'
`})
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	s := store(t)
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{"https://github.com/a/b.git": "https://github.com/a/b/.github/workflows/w.yml",
		"https://github.com/a/c.git": "", "https://example.com/a/b": ""} {
		g := Given{}
		g.URL = address
		if got := s.attested(t.Context(), root, g); got != want {
			t.Errorf("%s: %q", address, got)
		}
	}
}
