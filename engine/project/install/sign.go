package install

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aead.dev/minisign"
	"github.com/gofrs/flock"
	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"

	"github.com/knack-agent/knack/engine/plugin"
	"github.com/knack-agent/knack/internal/leaf/atomicfile"
	"github.com/knack-agent/knack/internal/leaf/plain"
	"github.com/knack-agent/knack/internal/leaf/regular"
	"github.com/knack-agent/knack/internal/leaf/userdirs"
)

// A RefusedError is the error for signatures that do not fit: nothing was installed.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }
func (e *RefusedError) Unwrap() error { return e.Err }

func refused(format string, args ...any) error { return &RefusedError{fmt.Errorf(format, args...)} }

// Namespace is that of SSH signatures: ssh-keygen -Y sign -n knack-skills.
const Namespace = "knack-skills"

// Signatures are detached, in files beside the lock.
const (
	minisigName = LockName + ".minisig"
	sshsigName  = LockName + ".sig"
	// pubName is what minisign calls a public key: its signatures do not contain the key.
	pubName = "minisign.pub"
	maxSig  = 64 << 10
)

// A Signer is a key that signed a lock.
type Signer struct {
	Key  string `json:"key"`            // "minisign BASE64", or an SSH key as in authorized_keys: "ssh-ed25519 BASE64"
	Name string `json:"name,omitempty"` // whose it is, by the user's allowed_signers; "": not in it
}

const ofMinisign = "minisign "

// String describes the key for a person: that of minisign in full, the fingerprint of an SSH key.
func (s Signer) String() string {
	text := s.Key
	if key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(s.Key)); err == nil {
		text = key.Type() + " " + ssh.FingerprintSHA256(key)
	}
	if s.Name != "" {
		text = plain.Line(s.Name) + " (" + text + ")"
	}
	return text
}

// SignerNames describes keys in one line.
func SignerNames(all []Signer) string {
	var names []string
	for _, s := range all {
		names = append(names, s.String())
	}
	return strings.Join(names, " and ")
}

// ParseKey reads a public key of minisign or SSH, or a file with one.
func ParseKey(text string) (Signer, error) {
	if data, err := regular.Read(text, maxSig); err == nil {
		text = string(data)
	}
	text = strings.TrimSpace(text)
	var pub minisign.PublicKey
	if err := pub.UnmarshalText([]byte(strings.TrimPrefix(text, ofMinisign))); err == nil {
		return Signer{Key: ofMinisign + pub.String()}, nil
	}
	if key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(text)); err == nil {
		return Signer{Key: sshKey(key)}, nil
	}
	return Signer{}, fmt.Errorf("%q is not a public key of minisign or SSH, nor a file with one", plain.Line(text))
}

func sshKey(key ssh.PublicKey) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// hasKey reports whether one of the keys is in both lists.
func hasKey(all, other []Signer) bool {
	return slices.ContainsFunc(all, func(a Signer) bool {
		return slices.ContainsFunc(other, func(b Signer) bool { return a.Key == b.Key })
	})
}

// verifySignatures checks the signatures in dir of a lock with the content data. Each that is there must be valid. keys
// are those that are known; a minisign.pub in dir is read for a key that nobody has seen yet.
func verifySignatures(dir *os.Root, data []byte, keys []Signer, allowed []byte, now time.Time) (all []Signer,
	err error) {
	read := func(name string) []byte {
		data, rerr := regular.ReadIn(dir, name, maxSig)
		if rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = rerr
		}
		return data
	}
	if text := read(sshsigName); text != nil {
		sig, err := sshsig.Unarmor(text)
		if err == nil {
			err = sshsig.Verify(bytes.NewReader(data), sig, sig.PublicKey, sig.HashAlgorithm, Namespace)
		}
		if err != nil {
			return nil, refused("%s is not a signature of %s: %w", sshsigName, LockName, err)
		}
		all = append(all, Signer{Key: sshKey(sig.PublicKey), Name: allowedName(allowed, sig.PublicKey, now)})
	}
	if text := read(minisigName); text != nil {
		var sig minisign.Signature
		if err := sig.UnmarshalText(text); err != nil {
			return nil, refused("%s: %w", minisigName, err)
		}
		known := slices.Clone(keys)
		if pub := read(pubName); pub != nil {
			if s, err := ParseKey(string(pub)); err == nil {
				known = append(known, s)
			}
		}
		i := slices.IndexFunc(known, func(s Signer) bool {
			pub, ok := s.minisign()
			return ok && pub.ID() == sig.KeyID
		})
		if i < 0 {
			return nil, refused("%s is by the key %016X, which is not known: give it with --key", minisigName, sig.KeyID)
		}
		if pub, _ := known[i].minisign(); !minisign.Verify(pub, data, text) {
			return nil, refused("%s is not a signature of %s", minisigName, LockName)
		}
		all = append(all, Signer{Key: known[i].Key})
	}
	return all, err // a signature that cannot be read
}

func (s Signer) minisign() (pub minisign.PublicKey, ok bool) {
	text, ok := strings.CutPrefix(s.Key, ofMinisign)
	return pub, ok && pub.UnmarshalText([]byte(text)) == nil
}

// allowedName returns the principals of a key in a file with the format ALLOWED SIGNERS of ssh-keygen(1); "": the key
// is not allowed to sign skills.
func allowedName(file []byte, key ssh.PublicKey, now time.Time) string {
	for line := range strings.Lines(string(file)) {
		names, rest, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || strings.HasPrefix(names, "#") {
			continue
		}
		listed, _, options, _, err := ssh.ParseAuthorizedKey([]byte(rest))
		if err == nil && sshKey(listed) == sshKey(key) && allowsSkills(options, now) {
			return strings.Trim(names, `"`)
		}
	}
	return ""
}

// allowsSkills reports whether a line of allowed_signers with these options counts. Keys of authorities do not: there
// are no certificates here.
func allowsSkills(options []string, now time.Time) bool {
	for _, o := range options {
		name, value, _ := strings.Cut(o, "=")
		value = strings.Trim(value, `"`)
		switch strings.ToLower(name) {
		case "namespaces":
			if !slices.ContainsFunc(strings.Split(value, ","), func(p string) bool {
				ok, err := filepath.Match(p, Namespace)
				return ok && err == nil
			}) {
				return false
			}
		case "valid-after":
			if t, err := sshTime(value); err != nil || now.Before(t) {
				return false
			}
		case "valid-before":
			if t, err := sshTime(value); err != nil || !now.Before(t) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// sshTime reads YYYYMMDD[HHMM[SS]][Z].
func sshTime(text string) (time.Time, error) {
	zone := time.Local
	if cut, ok := strings.CutSuffix(text, "Z"); ok {
		text, zone = cut, time.UTC
	}
	layout := "20060102150405"
	return time.ParseInLocation(layout[:min(len(layout), max(len(text), 8))], text, zone)
}

// allowedSigners reads the user's allowed_signers, beside the user's lock. Without it, no key has a name.
func (s *Store) allowedSigners() []byte {
	data, err := regular.Read(filepath.Join(cmp.Or(s.config, filepath.Dir(s.Lock)), "allowed_signers"), 1<<20)
	if err != nil {
		return nil
	}
	return data
}

// A packLock is a skills.lock at the root of a pack: what its author signs.
type packLock struct {
	Version int   `json:"version"`
	Files   Files `json:"files"`
}

// ofLock are the files of a pack that its lock does not contain.
var ofLock = []string{LockName, minisigName, sshsigName}

// Pack returns the lock of a staged tree for its author to sign: skills.lock at its root.
func (st *Staged) Pack() ([]byte, error) {
	return canonical(packLock{Version: 1, Files: withoutLock(st.Files)})
}

func withoutLock(files Files) Files {
	all := Files{}
	for name, is := range files {
		if !slices.Contains(ofLock, name) {
			all[name] = is
		}
	}
	return all
}

// verifyPack checks the signatures of a fetched tree, and that its files are those that were signed. Without a
// signature the result is nil.
func (s *Store) verifyPack(ctx context.Context, st *Staged, g Given) error {
	root, err := regular.Root(st.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	_, ssh := st.Files[sshsigName]
	_, mini := st.Files[minisigName]
	data, err := regular.ReadIn(root, LockName, maxLock)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !ssh && !mini:
	case err != nil:
		return refused("it has a signature, and its %s cannot be read: %w", LockName, err)
	default:
		if st.Signers, err = verifySignatures(root, data, slices.Concat(g.Keys, g.Known), s.allowedSigners(),
			time.Now()); err != nil {
			return err
		}
		st.Attested = s.attested(ctx, root, g)
	}
	if len(st.Signers) > 0 || st.Attested != "" {
		var signed packLock
		if err := json.Unmarshal(data, &signed); err != nil || signed.Version != 1 {
			return refused("its %s is signed, and is not the lock of a pack: knack skill lock writes one", LockName)
		}
		if d := signed.Files.Compare(withoutLock(st.Files)); !d.IsZero() {
			return refused("it has other files than were signed (%s)", d)
		}
	}
	if len(g.Keys) > 0 && !hasKey(st.Signers, g.Keys) {
		return refused("it is not signed by %s", SignerNames(g.Keys))
	}
	return nil
}

// CheckSigner returns an error if a version that replaces old is not signed by its key. A key that the user gave is as
// good.
func (st *Staged) CheckSigner(old *Item) error {
	switch {
	case old == nil || len(old.Signers) == 0 || hasKey(st.Signers, old.Signers) || hasKey(st.Signers, st.keys):
		return nil
	case len(st.Signers) == 0:
		return refused("it is not signed any more; what is installed was signed by %s", SignerNames(old.Signers))
	}
	return refused("it is signed by another key: %s; what is installed was signed by %s", SignerNames(st.Signers),
		SignerNames(old.Signers))
}

// attested returns what GitHub attests about the lock of a pack that comes from there; "": nothing, or gh is not
// installed.
func (s *Store) attested(ctx context.Context, root *os.Root, g Given) string {
	u, err := url.Parse(g.URL)
	if err != nil || !strings.EqualFold(u.Host, "github.com") {
		return ""
	}
	gh, err := exec.LookPath("gh")
	if err != nil {
		return ""
	}
	repo := strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")
	if !plugin.IsRepository(repo) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, gh, "attestation", "verify", filepath.Join(root.Name(), LockName), "--repo", repo,
		"--format", "json")
	cmd.Dir, cmd.Env, cmd.WaitDelay = s.Dir, userdirs.Environ(s.Environ), time.Second
	var out bytes.Buffer
	cmd.Stdout = &limited{&out, 8 << 20}
	var all []struct {
		VerificationResult struct {
			Signature struct {
				Certificate struct {
					BuildSignerURI      string `json:"buildSignerURI"`
					SourceRepositoryURI string `json:"sourceRepositoryURI"`
				} `json:"certificate"`
			} `json:"signature"`
		} `json:"verificationResult"`
	}
	if cmd.Run() != nil || json.Unmarshal(out.Bytes(), &all) != nil || len(all) == 0 {
		return ""
	}
	cert := all[0].VerificationResult.Signature.Certificate
	return cmp.Or(cert.BuildSignerURI, cert.SourceRepositoryURI, "https://github.com/"+repo)
}

// A SignedLock is what is known of the signatures of a lock.
type SignedLock struct {
	Signers []Signer // none: it is not signed
	First   bool     // no signature of this lock was seen before
}

// VerifyLock checks the signatures beside a lock, such as that of a project. keys are those that the user gave: then
// one of them must have signed it. Otherwise the keys of its first signature are remembered, and other ones are an
// error.
func (s *Store) VerifyLock(path string, keys []Signer) (SignedLock, error) {
	var x SignedLock
	data, err := regular.Read(path, maxLock)
	if errors.Is(err, fs.ErrNotExist) && len(keys) == 0 {
		return x, nil
	} else if err != nil {
		return x, err
	}
	root, err := regular.Root(filepath.Dir(path))
	if err != nil {
		return x, err
	}
	defer root.Close()
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return x, err
	}
	l := flock.New(filepath.Join(s.Dir, "install.lock"), flock.SetPermissions(0o600))
	if err := l.Lock(); err != nil {
		return x, err
	}
	defer l.Unlock()
	file := filepath.Join(s.Dir, "signers.json")
	seen := map[string][]Signer{}
	if old, err := regular.Read(file, 8<<20); err == nil {
		err = json.Unmarshal(old, &seen)
		if err != nil {
			return x, fmt.Errorf("%s: %w", file, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return x, err
	}
	known := seen[path]
	if x.Signers, err = verifySignatures(root, data, slices.Concat(keys, known), s.allowedSigners(), time.Now()); err !=
		nil {
		return x, err
	}
	switch {
	case len(keys) > 0 && !hasKey(x.Signers, keys):
		return x, refused("it is not signed by %s", SignerNames(keys))
	case len(keys) > 0:
		return x, nil
	case len(x.Signers) == 0 && len(known) > 0:
		return x, refused("it is not signed any more; it was signed by %s", SignerNames(known))
	case len(known) > 0 && !hasKey(x.Signers, known):
		return x, refused("it is signed by another key: %s; before it was %s", SignerNames(x.Signers), SignerNames(known))
	}
	if len(x.Signers) == 0 || len(known) > 0 && hasKey(x.Signers, known) {
		return x, nil
	}
	x.First = true
	seen[path] = x.Signers
	text, err := canonical(seen)
	if err != nil {
		return x, err
	}
	return x, atomicfile.Write(file, text, 0o600)
}
