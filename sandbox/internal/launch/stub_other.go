//go:build linux && arm64

package launch

// HaveStub says that this architecture has a stub.
const HaveStub = false

func StubImage() []byte { return nil }
