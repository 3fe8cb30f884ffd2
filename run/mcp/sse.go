package mcp

import (
	"fmt"
	"net/http"
	"net/url"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// sse makes the transport of an older server: one long answer has all messages, and names the address to which requests
// are posted. base adds the server's headers, read is [Server.incoming].
func sse(address string, base http.RoundTripper, read func([]byte) []byte) (sdk.Transport, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	return &sdk.SSEClientTransport{
		Endpoint: address,
		HTTPClient: &http.Client{Transport: mending{&streamed{base: base, origin: u}, read},
			CheckRedirect: sameOrigin},
		MaxEventSize: 2 * maxMessage,
	}, nil
}

// streamed sends requests only to the origin of the server, because its first message could name any address, and the
// requests carry its headers. The limits of the long answer count from the last request.
type streamed struct {
	base   http.RoundTripper
	origin *url.URL

	mu     sync.Mutex
	stream *meter
}

func (s *streamed) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != s.origin.Scheme || req.URL.Host != s.origin.Host {
		return nil, fmt.Errorf("the server names another address, %s://%s, which is not used", req.URL.Scheme, req.URL.Host)
	}
	s.mu.Lock()
	if s.stream != nil {
		s.stream.reset()
	}
	s.mu.Unlock()
	res, err := s.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if m, ok := res.Body.(*meter); ok && req.Method == http.MethodGet {
		s.mu.Lock()
		s.stream = m
		s.mu.Unlock()
	}
	return res, nil
}
