//go:build !stapsdt_noload

#include "go_asm.h"
#include "textflag.h"

// write appends a record to the slot of the thread it runs on. A goroutine is never preempted
// in assembly (isAsyncSafePoint in runtime/preempt.go), so it stays on its thread, and a slot
// has one writer. The table's address is loaded here: when the world has been stopped after it
// was cleared, no goroutine is on its way to the memory. If the thread has no slot and none is
// free, it takes one of those that threads share, for the time of the record.
//
// The records are stored before the size that makes them readable: amd64 keeps stores in their
// order.
//
// A text is read in words of 8 bytes within its bounds: the bytes after it may be on a page that is
// not mapped. Before a shared slot is taken, each text is read at both ends, which are on the only
// pages that it has: it could fault under the lock otherwise, and nothing would release the lock.

#define TABLE BX
#define SLOT  R11
#define SHAPE R12
#define TO    DI

// LENGTH loads the length of the text whose variable's address is in DX, as (*shape).text returns
// it.
#define LENGTH(to, scratch) \
	MOVQ 8(DX), to \
	MOVQ $const_maxText, scratch \
	CMPQ to, scratch \
	CMOVQHI scratch, to

// func write(s *shape, args unsafe.Pointer, f *fire) (done bool)
//
// With a fire, a store that faults meanwhile panics, instead of ending the program:
// debug.SetPanicOnFault would do the same, but its two calls would take longer than the
// stores.
TEXT ·write(SB), NOSPLIT, $0-25
	MOVQ s+0(FP), SHAPE
	MOVQ shape_head(SHAPE), R13
	TESTQ R13, R13
	JZ   not // the probe has no number
	MOVQ shape_at(SHAPE), AX
	MOVQ (AX), TABLE
	TESTQ TABLE, TABLE
	JZ   not
	MOVQ args+8(FP), SI
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

	CMPQ shape_texts(SHAPE), $0
	JEQ  share
	MOVQ f+16(FP), R9
	TESTQ R9, R9
	JZ   unset
	MOVBLZX const_offFault(R8), DX // what is restored if a text faults
	MOVL DX, fire_fault(R9)
unset:
	MOVQ shape_n(SHAPE), CX
touch:
	CMPB (shape_loads-1)(SHAPE)(CX*1), $const_typeString
	JNE  touched
	MOVQ -8(SI)(CX*8), DX
	LENGTH(R9, AX)
	TESTQ R9, R9
	JZ   touched
	MOVQ (DX), DX
	MOVBLZX (DX), AX
	MOVBLZX -1(DX)(R9*1), AX
touched:
	DECQ CX
	JNZ  touch

share:
	MOVQ table_common(TABLE), R9
	TESTQ R9, R9
	JZ   not
	MOVQ $0x9e3779b97f4a7c15, DX
	MOVQ const_offGoid(R8), R10
	IMULQ DX, R10
	SHRQ $32, R10
	IMULQ R9, R10
	SHRQ $32, R10 // below R9
	MOVQ R9, CX
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
	JEQ  found
next:
	INCQ R10
	CMPQ R10, R9
	JLO  more
	XORL R10, R10
more:
	DECQ CX
	JNZ  try
	JMP  not

found:
	MOVL R13, R10 // the size without texts is in the head's lower half
	MOVQ slot_next(SLOT), TO
	ADDQ TO, R10
	CMPQ R10, slot_end(SLOT)
	JHI  release
	MOVQ f+16(FP), R9

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
	PREFETCHT0 1024(TO) // memory that was not written to for long is in no cache: it saves 4 ns
	TESTQ R9, R9
	JZ   store
	MOVBLZX const_offFault(R8), DX
	MOVL DX, fire_fault(R9)
	MOVB $1, const_offFault(R8)
store:
	MOVQ AX, 8(TO)
	MOVQ const_offGoid(R8), DX
	MOVQ DX, 16(TO)

	XORL CX, CX
	CMPQ CX, shape_n(SHAPE)
	JEQ  texts
word: // as words.Load
	MOVQ (SI)(CX*8), DX
	MOVBLSX shape_loads(SHAPE)(CX*1), AX
	CMPL AX, $8
	JNE  narrow
	MOVQ (DX), DX
loaded:
	MOVQ DX, const_recordHead(TO)(CX*8)
	INCQ CX
	CMPQ CX, shape_n(SHAPE)
	JLO  word

texts:
	CMPQ shape_texts(SHAPE), $0
	JEQ  commit
	CMPQ R10, slot_end(SLOT)
	JHI  faultless
	MOVL R13, CX
	ADDQ TO, CX
	MOVQ R10, DX
	SUBQ CX, DX
	ADDQ DX, R13 // the head with the texts' sizes
	MOVQ TO, BX  // TABLE is not used any more
	MOVQ CX, TO
	XORL R9, R9
text:
	CMPB shape_loads(SHAPE)(R9*1), $const_typeString
	JNE  copied
	MOVQ (SI)(R9*8), DX
	LENGTH(CX, AX)
	MOVQ (DX), DX
	CMPQ CX, $8
	JLO  short
eight:
	MOVQ (DX), AX
	MOVQ AX, (TO)
	ADDQ $8, DX
	ADDQ $8, TO
	SUBQ $8, CX
	CMPQ CX, $8
	JHS  eight
	// The last CX bytes, 0 to 7, are the end of the 8 bytes before the text's end.
	XORL AX, AX
	TESTQ CX, CX
	JZ   tail
	MOVQ -8(DX)(CX*1), AX
	SHLQ $3, CX
	NEGQ CX
	ADDQ $64, CX
	SHRQ CX, AX
	JMP  tail
short:
	XORL AX, AX
	CMPQ CX, $4
	JHS  four
	TESTQ CX, CX
	JZ   tail
	MOVBLZX (DX), AX
	DECQ CX
	JZ   tail
	MOVBLZX 1(DX), R8
	SHLQ $8, R8
	ORQ  R8, AX
	DECQ CX
	JZ   tail
	MOVBLZX 2(DX), R8
	SHLQ $16, R8
	ORQ  R8, AX
	JMP  tail
four: // two times four bytes, which overlap unless there are eight
	MOVL (DX), AX
	MOVL -4(DX)(CX*1), R8
	SUBQ $4, CX
	SHLQ $3, CX
	SHLQ CX, R8
	ORQ  R8, AX
tail:
	MOVQ AX, (TO)
	ADDQ $8, TO
copied:
	INCQ R9
	CMPQ R9, shape_n(SHAPE)
	JLO  text
	MOVQ BX, TO
	MOVQ (TLS), R8

commit:
	MOVQ R13, (TO)
	MOVQ R10, slot_next(SLOT)
	INCQ slot_events(SLOT)
	SUBQ slot_base(SLOT), R10
	MOVQ slot_committed(SLOT), DX
	MOVQ R10, (DX)
	MOVQ f+16(FP), R9
	TESTQ R9, R9
	JZ   done
	MOVL $1, fire_done(R9)
	MOVL fire_fault(R9), DX
	MOVB DX, const_offFault(R8)
done:
	MOVB $1, done+24(FP)
	CMPQ slot_key(SLOT), $const_sharing
	JNE  own
	MOVQ $0, slot_key(SLOT)
own:
	RET

narrow:
	CMPL AX, $-4
	JEQ  int32
	CMPL AX, $const_typeString
	JEQ  length
	CMPL AX, $4
	JEQ  uint32
	CMPL AX, $1
	JEQ  uint8
	CMPL AX, $-1
	JEQ  int8
	CMPL AX, $2
	JEQ  uint16
	MOVWQSX (DX), DX
	JMP  loaded
int32:
	MOVLQSX (DX), DX
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
length:
	LENGTH(AX, R9)
	MOVQ AX, DX
	ADDQ $8, AX // as paddedLength
	ANDQ $~7, AX
	ADDQ AX, R10
	JMP  loaded

passed: // the goroutine may have been preempted since then
	MOVQ fire_now(R9), AX
	CMPQ AX, slot_read(SLOT)
	JLO  release
	MOVQ AX, slot_read(SLOT)
	JMP  timed
faultless:
	MOVQ f+16(FP), R9
	TESTQ R9, R9
	JZ   release
	MOVL fire_fault(R9), DX
	MOVB DX, const_offFault(R8)
release:
	CMPQ slot_key(SLOT), $const_sharing
	JNE  not
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
