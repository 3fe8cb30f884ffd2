// Package authority makes HTTP clients trust the certificate authorities that the user's environment names: those of a
// company whose proxy opens connections, or of a server inside.
//
//	authority.Trust(http.DefaultTransport.(*http.Transport), os.Getenv)
//
// NODE_EXTRA_CA_CERTS names a file with more authorities than the system's, as for programs on Node; SSL_CERT_FILE one
// in their place, as for OpenSSL and Go. Both are PEM. A file that cannot be used is an [*Error].
package authority

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"

	"github.com/knack-agent/knack/internal/leaf/regular"
)

// Advice says what mends an error about a certificate; "": the error is about something else.
func Advice(err error) string {
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	switch {
	case Unknown(err):
		return "SSL_CERT_FILE or NODE_EXTRA_CA_CERTS may name a file with the certificate of your organisation"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "is the clock of this machine right?"
	case errors.As(err, &name):
		return "is the address right, or does the network want a login first?"
	}
	return ""
}

const maxFile = 16 << 20

// An Error means that the file that a variable names is missing, unreadable, or has no certificate.
type Error struct {
	Variable string
	Err      error
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %v (unset %[1]s, or name a PEM file with certificates)", e.Variable, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Config returns the configuration of connections that trust what the variables name; nil: they change nothing.
func Config(getenv func(string) string) (*tls.Config, error) {
	whole, err := read("SSL_CERT_FILE", getenv)
	if err != nil {
		return nil, err
	}
	extra, err := read("NODE_EXTRA_CA_CERTS", getenv)
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && runtime.GOOS != "darwin" && getenv("SSL_CERT_FILE") == os.Getenv("SSL_CERT_FILE") {
		whole = nil // crypto/x509 reads it
		if ofSystem(getenv("NODE_EXTRA_CA_CERTS")) {
			extra = nil // as well; to read it twice, before each start, costs more than the rest of the start
		}
	}
	if whole == nil && extra == nil {
		return nil, nil
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	pool.AppendCertsFromPEM(whole)
	pool.AppendCertsFromPEM(extra)
	return &tls.Config{RootCAs: pool}, nil
}

// ofSystem reports whether crypto/x509 reads a file by itself on Linux: the one of SSL_CERT_FILE, or else that of Debian,
// which it looks for first.
func ofSystem(file string) bool {
	return runtime.GOOS == "linux" && file == cmp.Or(os.Getenv("SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt")
}

// read returns the content of the file that a variable names; nil: the variable is not set.
func read(variable string, getenv func(string) string) ([]byte, error) {
	file := getenv(variable)
	if file == "" {
		return nil, nil
	}
	data, err := regular.Read(file, maxFile)
	if err == nil && !hasCertificate(data) {
		err = fmt.Errorf("%s has no certificate", file)
	}
	if err != nil {
		return nil, &Error{variable, err}
	}
	return data, nil
}

func hasCertificate(data []byte) bool {
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			return false
		}
		if block.Type == "CERTIFICATE" {
			if _, err := x509.ParseCertificate(block.Bytes); err == nil {
				return true
			}
		}
	}
}

// Trust makes t, and what is cloned from it, trust what the variables name. If a file cannot be used, t makes no
// connection with TLS: each fails with the [*Error]. Call it before t is used.
func Trust(t *http.Transport, getenv func(string) string) {
	config, err := Config(getenv)
	if err != nil {
		config = &tls.Config{
			InsecureSkipVerify: true, // so that the failure below is the one that is told
			VerifyConnection:   func(tls.ConnectionState) error { return err },
		}
	}
	if config != nil {
		t.TLSClientConfig = config
	}
}

// Unknown reports whether a connection failed because nobody whom this machine trusts has signed the certificate.
func Unknown(err error) bool {
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &unknown)
}
