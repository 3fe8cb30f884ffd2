package cloud

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	signingTime = "20060102T150405Z"
	algorithm   = "AWS4-HMAC-SHA256"
)

// sign signs a request with version 4 of AWS's signature. body is the SHA-256 of its body.
func sign(r *http.Request, body [sha256.Size]byte, k awsKeys, service, region string, now time.Time) {
	at := now.UTC().Format(signingTime)
	r.Header.Set("X-Amz-Date", at)
	r.Header.Set("X-Amz-Content-Sha256", hex.EncodeToString(body[:]))
	if k.Token != "" {
		r.Header.Set("X-Amz-Security-Token", k.Token)
	}
	signed := []string{"content-type", "host", "x-amz-content-sha256", "x-amz-date"}
	if k.Token != "" {
		signed = append(signed, "x-amz-security-token")
	}
	scope := strings.Join([]string{at[:8], region, service, "aws4_request"}, "/")
	r.Header.Set("Authorization", fmt.Sprintf("%s Credential=%s/%s, SignedHeaders=%s, Signature=%s", algorithm, k.ID,
		scope, strings.Join(signed, ";"), signature(r, hex.EncodeToString(body[:]), signed, k.Secret, at, scope)))
}

// signature returns the signature of a request for the headers that it covers.
func signature(r *http.Request, body string, signed []string, secret, at, scope string) string {
	var headers strings.Builder
	for _, name := range signed {
		value := strings.Join(r.Header.Values(name), ",")
		if name == "host" {
			value = cmp.Or(r.Host, r.URL.Host)
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, strings.Join(strings.Fields(value), " "))
	}
	// All of AWS's services except S3 want a path that is escaped twice.
	path := cmp.Or(escape(r.URL.EscapedPath(), "/"), "/")
	request := strings.Join([]string{r.Method, path, query(r.URL), headers.String(),
		strings.Join(signed, ";"), body}, "\n")
	sum := sha256.Sum256([]byte(request))
	key := []byte("AWS4" + secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = mac(key, part)
	}
	return hex.EncodeToString(mac(key, strings.Join([]string{algorithm, at, scope, hex.EncodeToString(sum[:])}, "\n")))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// escape escapes all bytes of a text but letters, digits, -._~ and those of keep.
func escape(text, keep string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~"+keep, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// query returns the parameters of a URL in the order and form that is signed.
func query(u *url.URL) string {
	var all []string
	for name, values := range u.Query() {
		for _, v := range values {
			all = append(all, escape(name, "")+"="+escape(v, ""))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "&")
}
