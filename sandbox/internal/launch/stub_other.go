//go:build linux && arm64

package launch

// HaveStub reports whether this architecture has a stub.
const HaveStub = false

func StubImage() []byte { return nil }
