//go:build linux && amd64

package launch

import "unsafe"

// HaveStub reports whether this architecture has a stub.
const HaveStub = true

// stub is only read as bytes, which stubAddress finds.
//
//lint:ignore U1000 go vet wants a declaration of each function in assembler.
func stub()

// stubAddress returns the address of the code of stub.
func stubAddress() unsafe.Pointer

const stubEnd = 0x646e652d62757473 // "stub-end", the mark after the code

// StubImage returns an ELF executable of the stub: one segment, no libraries.
func StubImage() []byte {
	const head, program, origin = 64, 56, 0x100000000
	code := unsafe.Slice((*byte)(stubAddress()), 4096)
	size := 0
	for *(*uint64)(unsafe.Pointer(&code[size])) != stubEnd {
		size++
	}
	code = code[:size]
	total := uint64(head + program + len(code))
	h := struct {
		magic                    [16]byte
		kind, machine            uint16
		version                  uint32
		entry, programs, section uint64
		flags                    uint32
		sizes                    [6]uint16
		segment, access          uint32
		offset, virtual, phys    uint64
		fileSize, memSize, align uint64
	}{
		magic: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, kind: 2, machine: elfMachine, version: 1,
		entry: origin + head + program, programs: head, sizes: [6]uint16{head, program, 1},
		segment: 1, access: 4 | 1, virtual: origin, phys: origin, fileSize: total, memSize: total, align: 4096,
	}
	return append(append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(&h)), unsafe.Sizeof(h))...), code...)
}

const elfMachine = 62
