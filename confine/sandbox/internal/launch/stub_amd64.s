//go:build linux

#include "textflag.h"

// The layout of a call, see type op in program.go.
#define NR     0
#define LOADS  4
#define THEN   5
#define ARGS   8
#define STORE  56
#define TARGET 64
#define ERRS   72
#define SIZE   80

#define CODEBASE 0x200000000
#define DATABASE 0x201000000

// ARG loads argument i, or the 32-bit number at its address.
#define ARG(i, reg) \
	MOVQ (ARGS+8*i)(R12), reg \
	BTL  $i, BX               \
	JCC  2(PC)                \
	MOVLQSX (reg), reg

// RECEIVE reads SI bytes from the control socket to DI.
#define RECEIVE \
	MOVQ SI, R13    \
	MOVQ DI, SI     \
	MOVQ R13, DX    \
	MOVQ $3, DI     \
	MOVQ $0x100, R10 \
	XORQ R8, R8     \
	XORQ R9, R9     \
	MOVQ $45, AX    \
	SYSCALL         \
	CMPQ AX, R13    \
	JNE  exit

// stub is never called: it is copied to a file that is executed, and ends with
// a mark. It maps memory at CODEBASE and DATABASE, reads both from the control socket
// and makes the calls. R12 is the address of the current call; the kernel
// changes no register but AX, CX and R11.
TEXT ·stub(SB), NOSPLIT|NOFRAME, $0-0
	// mmap(CODEBASE, 32 MB, read and write, private anonymous fixed noreserve)
	MOVQ $CODEBASE, DI
	MOVQ $0x2000000, SI
	MOVQ $3, DX
	MOVQ $0x104022, R10
	MOVQ $-1, R8
	XORQ R9, R9
	MOVQ $9, AX
	SYSCALL
	MOVQ $CODEBASE, R12
	CMPQ AX, R12
	JNE  exit

	// The lengths of both in bytes come first.
	MOVQ R12, DI
	MOVQ $16, SI
	RECEIVE
	MOVQ (R12), SI
	MOVQ 8(R12), R14
	MOVQ R12, DI
	RECEIVE
	MOVQ $DATABASE, DI
	MOVQ R14, SI
	RECEIVE

make:
	MOVBLZX LOADS(R12), BX
	ARG(0, DI)
	ARG(1, SI)
	ARG(2, DX)
	ARG(3, R10)
	ARG(4, R8)
	ARG(5, R9)
	MOVL NR(R12), AX
	CMPL AX, $0xffffffff // compare
	JEQ  compare
	SYSCALL

done:
	MOVQ STORE(R12), CX
	TESTQ CX, CX
	JEQ  2(PC)
	MOVL AX, (CX)
	MOVBLZX THEN(R12), BX
	MOVQ TARGET(R12), R13
	TESTQ AX, AX
	JLT  failed
	CMPL BX, $1 // jumpIfZero
	JEQ  zero
	CMPL BX, $2 // repeatUntil
	JEQ  until
	CMPL BX, $3 // jumpIfDone
	JEQ  jump

next:
	ADDQ $SIZE, R12
	JMP  make

compare:
	XORL AX, AX
	CMPQ SI, (DI)
	JEQ  done
	MOVQ $-116, AX // ESTALE
	JMP  done

jump:
	MOVQ R13, R12
	JMP  make

zero:
	TESTQ AX, AX
	JEQ  jump
	JMP  next

until:
	CMPL AX, (R13)
	JEQ  next
	JMP  make

failed:
	NEGQ AX
	CMPW AX, ERRS(R12)
	JEQ  tolerated
	CMPW AX, (ERRS+2)(R12)
	JEQ  tolerated
	CMPW AX, (ERRS+4)(R12)
	JEQ  tolerated
	CMPW AX, (ERRS+6)(R12)
	JEQ  tolerated
	MOVWLZX ERRS(R12), CX
	CMPL CX, $0xffff // anyError
	JNE  report

tolerated:
	CMPL BX, $3
	JEQ  next
	TESTQ R13, R13
	JEQ  next
	JMP  jump

report:
	// Kind and length, the call's offset, the error.
	SUBQ $16, SP
	MOVL $0x00080066, (SP)
	MOVQ $CODEBASE, CX
	SUBQ CX, R12
	MOVL R12, 3(SP)
	MOVL AX, 7(SP)
	MOVQ $3, DI
	MOVQ SP, SI
	MOVQ $11, DX
	MOVQ $1, AX
	SYSCALL

exit:
	MOVQ $125, DI // failedCode
	MOVQ $231, AX // exit_group
	SYSCALL
	QUAD $0x646e652d62757473
	RET

// func stubAddress() unsafe.Pointer
TEXT ·stubAddress(SB), NOSPLIT, $0-8
	LEAQ ·stub(SB), AX
	MOVQ AX, ret+0(FP)
	RET
