//go:build linux && arm64

package launch

// HaveStub reports whether this architecture has a stub.
const HaveStub = false

// StubImage returns nil.
func StubImage() []byte { return nil }
