//go:build !stapsdt_noload

#include "go_asm.h"
#include "textflag.h"

// write writes a record to the slot of the thread it runs on. A goroutine is never preempted
// in assembly (isAsyncSafePoint in runtime/preempt.go), so it stays on its thread, and a slot
// has one writer. The table's address is loaded here: when the world has been stopped after it
// was cleared, no goroutine is on its way to the memory. If the thread has no slot and none is free, it takes
// one of those that threads share, for the time of the record.
//
// The records are stored before the size that makes them readable: amd64 keeps stores in their
// order.
//
// A text is read in words of 8 bytes within its bounds: the bytes after it may be on a page that is
// not mapped.

#define TABLE BX
#define SLOT  R11
#define TO    DI

// func write(at *unsafe.Pointer, r *record, now uint64) (done bool)
//
// A store that faults meanwhile panics, instead of ending the program:
// debug.SetPanicOnFault would do the same, but its two calls would take longer than the
// stores.
TEXT ·write(SB), NOSPLIT, $0-25
	MOVQ at+0(FP), AX
	MOVQ (AX), TABLE
	TESTQ TABLE, TABLE
	JZ   not
	MOVQ (TLS), R8
	MOVQ const_offM(R8), R9
	MOVQ R9, R10
	SHRQ $const_shiftM, R10
	ANDQ table_mask(TABLE), R10
	SHLQ $6, R10 // the size of a slot
	LEAQ table_slots(TABLE)(R10*1), SLOT
	CMPQ slot_key(SLOT), R9
	JEQ  found
	ADDQ $slot__size, SLOT
	CMPQ slot_key(SLOT), R9
	JEQ  found
	ADDQ $slot__size, SLOT
	CMPQ slot_key(SLOT), R9
	JEQ  found
	ADDQ $slot__size, SLOT
	CMPQ slot_key(SLOT), R9
	JEQ  found
	CMPQ (slot_key-3*slot__size)(SLOT), $0
	JEQ  not // the thread can own it
	CMPQ (slot_key-2*slot__size)(SLOT), $0
	JEQ  not
	CMPQ (slot_key-slot__size)(SLOT), $0
	JEQ  not
	CMPQ slot_key(SLOT), $0
	JEQ  not

	MOVQ table_common(TABLE), R13
	TESTQ R13, R13
	JZ   not
	MOVQ $0x9e3779b97f4a7c15, DX
	MOVQ const_offGoid(R8), R10
	IMULQ DX, R10
	SHRQ $32, R10
	IMULQ R13, R10
	SHRQ $32, R10 // below R13
	MOVQ R13, R12
	MOVQ $const_sharing, DX
try:
	MOVQ R10, SLOT
	SHLQ $6, SLOT
	LEAQ table_shared(TABLE)(SLOT*1), SLOT
	CMPQ slot_key(SLOT), $0
	JNE  next
	XORL AX, AX
	LOCK
	CMPXCHGQ DX, slot_key(SLOT)
	JEQ  taken
next:
	INCQ R10
	CMPQ R10, R13
	JLO  more
	XORL R10, R10
more:
	DECQ R12
	JNZ  try
	JMP  not

taken: // the code leaves it if a text is on a page that is not mapped
	MOVQ r+8(FP), R12
	ADDQ $const_inShared, R10
	MOVL R10, record_done(R12)

found:
	MOVQ r+8(FP), R12
	MOVQ record_head(R12), R13 // the size in its lower half
	MOVL R13, R10
	MOVQ slot_next(SLOT), TO
	ADDQ TO, R10
	CMPQ R10, slot_end(SLOT)
	JHI  release

	MOVQ now+16(FP), AX
	CMPQ table_counter(TABLE), $0
	JEQ  passed
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, DX
	SUBQ slot_read(SLOT), DX
	CMPQ DX, slot_interval(SLOT)
	JHI  release

timed:
	PREFETCHT0 1024(TO) // memory that was not written to for long is in no cache: without this, 4 ns more
	MOVBQZX const_offFault(R8), DX
	MOVB $1, const_offFault(R8)
	MOVL DX, record_fault(R12)
	MOVQ R13, 0(TO)
	MOVQ AX, 8(TO)
	MOVQ const_offGoid(R8), DX
	MOVQ DX, 16(TO)
	ADDQ $const_recordHead, TO

	MOVQ record_words(R12), SI
	MOVQ record_n(R12), CX
	TESTQ CX, CX
	JZ   texts
	MOVQ record_types(R12), R9
	TESTQ R9, R9
	JZ   word
number: // as words.Load
	MOVQ (SI), DX
	MOVBQSX (R9), AX
	CMPQ AX, $8
	JEQ  wide
	CMPQ AX, $-4
	JEQ  int32
	CMPQ AX, $-8
	JEQ  wide
	CMPQ AX, $4
	JEQ  uint32
	CMPQ AX, $40 // a float64
	JEQ  wide
	CMPQ AX, $36 // a float32
	JEQ  uint32
	CMPQ AX, $1
	JEQ  uint8
	CMPQ AX, $-1
	JEQ  int8
	CMPQ AX, $2
	JEQ  uint16
	MOVWQSX (DX), DX
	JMP  loaded
uint32:
	MOVLQZX (DX), DX
	JMP  loaded
uint8:
	MOVBQZX (DX), DX
	JMP  loaded
int8:
	MOVBQSX (DX), DX
	JMP  loaded
uint16:
	MOVWQZX (DX), DX
	JMP  loaded
int32:
	MOVLQSX (DX), DX
	JMP  loaded
wide:
	MOVQ (DX), DX
loaded:
	MOVQ DX, (TO)
	ADDQ $8, SI
	ADDQ $8, TO
	INCQ R9
	DECQ CX
	JNZ  number
	JMP  texts
word:
	MOVQ (SI), DX
	MOVQ DX, (TO)
	ADDQ $8, SI
	ADDQ $8, TO
	DECQ CX
	JNZ  word

texts:
	MOVQ record_count(R12), R9
	TESTQ R9, R9
	JZ   commit
	MOVQ record_texts(R12), R12
text:
	MOVQ 0(R12), SI // the string's address
	MOVQ 8(R12), CX // and length
	ADDQ $16, R12
	CMPQ CX, $8
	JLO  short
eight:
	MOVQ (SI), DX
	MOVQ DX, (TO)
	ADDQ $8, SI
	ADDQ $8, TO
	SUBQ $8, CX
	CMPQ CX, $8
	JHS  eight
	// The last CX bytes, 0 to 7, are the end of the 8 bytes before the text's end.
	XORL DX, DX
	TESTQ CX, CX
	JZ   tail
	MOVQ -8(SI)(CX*1), DX
	SHLQ $3, CX
	NEGQ CX
	ADDQ $64, CX
	SHRQ CX, DX
	JMP  tail
short:
	XORL DX, DX
	CMPQ CX, $4
	JHS  four
	TESTQ CX, CX
	JZ   tail
	MOVBLZX (SI), DX
	DECQ CX
	JZ   tail
	MOVBLZX 1(SI), AX
	SHLQ $8, AX
	ORQ  AX, DX
	DECQ CX
	JZ   tail
	MOVBLZX 2(SI), AX
	SHLQ $16, AX
	ORQ  AX, DX
	JMP  tail
four: // two times four bytes, which overlap unless there are eight
	MOVL (SI), DX
	MOVL -4(SI)(CX*1), AX
	SUBQ $4, CX
	SHLQ $3, CX
	SHLQ CX, AX
	ORQ  AX, DX
tail:
	MOVQ DX, (TO)
	ADDQ $8, TO
	DECQ R9
	JNZ  text

commit:
	MOVQ R10, slot_next(SLOT)
	INCQ slot_events(SLOT)
	SUBQ slot_base(SLOT), R10
	MOVQ slot_committed(SLOT), DX
	MOVQ R10, (DX)
	MOVQ r+8(FP), R12
	MOVL record_fault(R12), DX
	MOVB DX, const_offFault(R8)
	MOVB $1, done+24(FP)
	CMPQ slot_key(SLOT), $const_sharing
	JNE  own
	MOVQ $0, slot_key(SLOT)
own:
	RET
passed: // the goroutine may have been preempted since then
	CMPQ AX, slot_read(SLOT)
	JLO  release
	MOVQ AX, slot_read(SLOT)
	JMP  timed
release:
	CMPQ slot_key(SLOT), $const_sharing
	JNE  not
	MOVQ r+8(FP), R12
	MOVL $0, record_done(R12)
	MOVQ $0, slot_key(SLOT)
not:
	MOVB $0, done+24(FP)
	RET

// func counter() uint64
TEXT ·counter(SB), NOSPLIT, $0-8
	RDTSC
	SHLQ $32, DX
	ORQ  DX, AX
	MOVQ AX, ret+0(FP)
	RET

// func invariantCounter() bool
TEXT ·invariantCounter(SB), NOSPLIT, $0-1
	MOVL $0x80000000, AX
	XORL CX, CX
	CPUID
	CMPL AX, $0x80000007
	JLO  no
	MOVL $0x80000007, AX
	XORL CX, CX
	CPUID
	SHRL $8, DX
	ANDL $1, DX
	MOVB DX, ret+0(FP)
	RET
no:
	MOVB $0, ret+0(FP)
	RET
