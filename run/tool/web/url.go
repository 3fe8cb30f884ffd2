package web

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/knack-agent/knack/internal/leaf/guard"
	"github.com/knack-agent/knack/internal/leaf/secrets"
)

// DocumentationHosts returns the hosts of documentation that need no approval unless settings say otherwise. Nobody but
// the project publishes there, and no stranger sees their logs.
func DocumentationHosts() []string {
	return slices.Clone(documentation[:])
}

var documentation = [...]string{
	"docs.python.org", "developer.mozilla.org", "doc.rust-lang.org", "nodejs.org", "www.typescriptlang.org", "react.dev",
	"vuejs.org", "angular.dev", "docs.djangoproject.com", "flask.palletsprojects.com", "guides.rubyonrails.org",
	"docs.ruby-lang.org", "docs.oracle.com", "docs.swift.org", "developer.android.com", "docs.docker.com", "kubernetes.io",
	"developer.hashicorp.com", "docs.aws.amazon.com", "git-scm.com", "man7.org", "www.rfc-editor.org",
	"html.spec.whatwg.org", "tailwindcss.com", "vite.dev", "webpack.js.org", "jestjs.io", "numpy.org",
	"pandas.pydata.org", "scikit-learn.org", "modelcontextprotocol.io", "agentskills.io", "docs.claude.com",
	"platform.openai.com", "docs.github.com", "docs.gitlab.com",
}

// parse checks a URL and returns it in one spelling: an ASCII host in lower case, no fragment.
func parse(text string) (*url.URL, error) {
	text = strings.TrimSpace(text)
	if len(text) > maxURL {
		return nil, fmt.Errorf("the URL has %d characters: at most %d are sent", len(text), maxURL)
	}
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("not a URL: %w", errors.Unwrap(err))
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%s: only http and https", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("the URL has no host")
	case u.User != nil:
		return nil, errors.New("a URL with a user name or a password in it is not fetched")
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	if !strings.Contains(host, ":") { // not an IPv6 address
		if host, err = idna.Lookup.ToASCII(host); err != nil {
			return nil, fmt.Errorf("%q is not a host name", u.Hostname())
		}
	}
	port := u.Port()
	if _, err := strconv.ParseUint(port, 10, 16); err != nil && port != "" {
		return nil, fmt.Errorf("there is no port %s", port)
	}
	if port == "80" && u.Scheme == "http" || port == "443" && u.Scheme == "https" {
		port = ""
	}
	u.Host = host
	switch {
	case port != "":
		u.Host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		u.Host = "[" + host + "]"
	}
	if u.Path == "" {
		u.Path = "/"
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// shownHost returns a host for people: in ASCII, followed by the characters that it stands for if they are others.
func shownHost(u *url.URL) string {
	if shown, err := idna.ToUnicode(u.Hostname()); err == nil && shown != u.Hostname() {
		return u.Host + " (" + shown + ")"
	}
	return u.Host
}

// maxCarried is how many characters of path and query a URL may carry unasked.
const maxCarried = 200

// longHost is the length from which a host name counts as text that is carried, too: whoever owns a domain reads the
// names below it.
const longHost = 80

// carries explains why a URL may carry data to its host; "": it does not.
func (c *client) carries(u *url.URL) string {
	if c.holdsSecret(u) {
		return "the URL contains text that this session read from a secret"
	}
	if n := len(u.EscapedPath()) + len(u.RawQuery); n > maxCarried || len(u.Host) > longHost {
		n += len(u.Host)
		return fmt.Sprintf("the URL carries %d characters to %s", n, shownHost(u))
	}
	return ""
}

// holdsSecret reports whether a URL contains text of a secret.
func (c *client) holdsSecret(u *url.URL) bool {
	return c.opt.Secrets != nil && secrets.Found(u.String(), c.opt.Secrets())
}

// Carries reports whether a text contains a word of one of some secrets, as it is or in a simple coding: escaped,
// reversed, with characters between, in base64, base32 or hexadecimal, or half of a long key.
func Carries(text string, texts []string) bool { return secrets.Found(text, texts) }

// sameHost reports whether two URLs have the same host and port.
func sameHost(a, b *url.URL) bool {
	return strings.EqualFold(a.Hostname(), b.Hostname()) && guard.Port(a) == guard.Port(b)
}
