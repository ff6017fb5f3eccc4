// Package sdt reads the SDT probes of programs and libraries: which probes there are,
// where a tracer attaches to them, and where it finds their arguments.
//
// SDT (SystemTap's statically defined tracing, also called USDT) is the format in which
// stapsdt, the macros of <sys/sdt.h>, and the probes built into PostgreSQL, PHP, Ruby and
// the Java VM describe themselves. A probe's site is a nop. For each site the file has a
// note with the names of the provider and the probe, the address of the site, and a line of
// text with the arguments. bpftrace, bcc, perf and gdb read these notes, and so does this
// package, on every system and for files of every architecture, without running anything.
//
// # Probes
//
// [ReadFile] returns one [Site] for each note of a file:
//
//	sites, err := sdt.ReadFile("/usr/lib/postgresql/15/bin/postgres")
//
// To attach to a probe, give its Offset to the kernel as a uprobe's offset in this file, and
// its SemaphoreOffset, if that is not 0, as the uprobe's reference counter. Several probes
// can have one name: attach to all of them.
//
// # Arguments
//
// The note of a probe with two arguments has, for example, the text "-4@%esi 8@16(%rsp)": a
// signed value of 4 bytes in the register esi, and an unsigned one of 8 bytes in memory, 16
// bytes above the stack pointer. Each becomes an [Arg] with its size, its sign and its
// [Operand], which is valid from when a thread reaches the site until it leaves it. To read
// an argument:
//
//	switch o := arg.Operand; o.Kind {
//	case sdt.OperandRegister:
//		value = register(o.Base.Full) >> o.Base.Shift
//	case sdt.OperandMemory:
//		value = load(symbol(o.Symbol) + register(o.Base.Full) +
//			register(o.Index.Full)*o.Scale + o.Displacement)
//	case sdt.OperandConstant:
//		value = symbol(o.Symbol) + o.Displacement
//	}
//
// Then take the lowest arg.Size bytes of the value, and extend its sign if arg.Signed is set. A
// floating-point number is more often in a general register or in memory than in a floating-point
// register: arg.Float means that the bits are such a number, wherever they are.
//
// The operands are as the compiler of the program wrote them, in the notation of the
// architecture's assembler. This package reads the operands of amd64, arm64, riscv64, s390x,
// ppc64le, 386 and arm. If it does not understand an operand, or if the operand has more than
// one meaning, the argument's Err is the reason, its Kind is [OperandUnknown], and its String
// still returns the text of the note. Examples are thread-local variables, addresses that need
// a relocation, and on ARM a symbol, which can mean the symbol's address or the value there.
//
// # Names and types
//
// A note has neither names nor types of arguments. If the file, or the file with its debugging
// information, describes the sites in DWARF, as images of stapsdt can, [ReadTypes] adds
// them: "path char *, status int". A pointer to a struct comes with the fields of the
// struct.
//
// # Untrusted files
//
// This package can be used on files of unknown origin. A damaged note is an error that names
// the note and the wrong bytes, and does not hide the other notes. No length is trusted
// before its bytes have been read, and limits, far above the needs of real programs, bound
// the time and the memory that a file costs.
//
// # Concurrency
//
// Functions may be called from any goroutine, but ReadTypes changes the sites that it is given.
// Sites, arguments and types are plain data. Several arguments can share a [Type].
package sdt
