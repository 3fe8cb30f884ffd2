//go:build !linux

package web

import "net/http"

// ofThisUser is true where a connection does not tell whose it is: the token alone decides.
func ofThisUser(*http.Request) bool { return true }
