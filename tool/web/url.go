package web

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/net/idna"

	"github.com/knack-agent/knack/internal/leaf/guard"
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
	return c.opt.Secrets != nil && holdsAny(u, c.opt.Secrets())
}

func holdsAny(u *url.URL, secrets []string) bool {
	return slices.ContainsFunc(secrets, func(s string) bool { return carriesText(u, s) })
}

// Carries reports whether a text contains a word of one of some secrets: as it is, escaped, in base64 or in
// hexadecimal.
func Carries(text string, secrets []string) bool { return holdsAny(&url.URL{Opaque: text}, secrets) }

// shortestSecret is the length of the shortest word of a secret that is looked for. Shorter ones are in many URLs.
const shortestSecret = 8

// secretWords splits the text of a secret into what could be a key or a password.
func secretWords(text string) []string {
	words := strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || strings.ContainsRune("\"'`=:,;{}[]()<>", r) })
	return slices.DeleteFunc(words, func(w string) bool { return len(w) < shortestSecret })
}

// escapes finds escaped bytes. What is no escape stays: a server may well accept such a URL.
var escapes = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`%[0-9A-Fa-f]{2}`) })

// encoded finds what could be base64 (of both alphabets) or hexadecimal.
var encoded = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[A-Za-z0-9+/_-]{8,}`) })

// carriesText reports whether a URL contains a word of a secret: as it is, escaped, in base64 or in hexadecimal.
func carriesText(u *url.URL, secret string) bool {
	words := secretWords(secret)
	if len(words) == 0 {
		return false
	}
	views := []string{u.String()}
	for range 3 { // escaped, perhaps more than once
		last := views[len(views)-1]
		next := escapes().ReplaceAllStringFunc(last, func(escape string) string {
			b, _ := hex.DecodeString(escape[1:])
			return string(b)
		})
		if next == last {
			break
		}
		views = append(views, next)
	}
	for _, v := range slices.Clone(views) {
		for _, run := range encoded().FindAllString(v, -1) {
			views = append(views, decodings(run)...)
			for _, part := range strings.FieldsFunc(run, func(r rune) bool { return strings.ContainsRune("/-_+", r) }) {
				if part != run {
					views = append(views, decodings(part)...)
				}
			}
		}
	}
	for _, v := range views {
		for _, w := range words {
			if strings.Contains(strings.ToLower(v), strings.ToLower(w)) {
				return true
			}
		}
	}
	return false
}

// decodings returns what a run of characters could be the base64 or hexadecimal form of. The text may begin before the
// run, so that the run begins in the middle of a group.
func decodings(run string) []string {
	var out []string
	std := strings.NewReplacer("-", "+", "_", "/").Replace(run)
	for skip := range min(4, len(std)) {
		part := std[skip:]
		if len(part)%4 == 1 { // no text has such a length
			part = part[:len(part)-1]
		}
		if data, err := base64.RawStdEncoding.DecodeString(part); err == nil {
			out = append(out, string(data))
		}
	}
	for skip := range min(2, len(run)) {
		part := run[skip:]
		if data, err := hex.DecodeString(part[:len(part)/2*2]); err == nil {
			out = append(out, string(data))
		}
	}
	return out
}

// sameHost reports whether two URLs have the same host and port.
func sameHost(a, b *url.URL) bool {
	return strings.EqualFold(a.Hostname(), b.Hostname()) && guard.Port(a) == guard.Port(b)
}
