// Package stapsdt creates USDT probes (SystemTap SDT) at run time. bpftrace, bcc,
// perf, DTrace and programs built on libbpf can attach to them. A probe costs next to
// nothing while no tracer is attached.
//
//	var app = stapsdt.NewProvider("myapp")
//	var request = stapsdt.NewProbe2[string, int32](app, "request__done", "path", "status")
//
//	func main() {
//		if err := probeenv.Load(); err != nil {
//			log.Print(err) // some probes are unavailable; the program continues
//		}
//		...
//		request.Fire(r.URL.Path, status)
//	}
//
//	# bpftrace -p $(pgrep myapp) -e 'usdt:*:myapp:request__done { printf("%s %d\n", str(arg0), arg1); }'
//	/index.html 200
//
// # Lifecycle
//
// A [Provider] is a name and a list of probes. Define providers with [NewProvider] and
// probes with [NewProbe0] to [NewProbe6] or [NewProbeOf], as package variables or later.
// If a probe's arguments are known only at run time, define it with [Provider.AddProbe].
//
// [Provider.Load] makes the probes visible to tracers, and reports any error in the
// definition of a typed probe. It maps a small file, which it writes unless an earlier process
// has written it, or memory that is in no file (a memfd). For a few probes, this takes tens of
// microseconds. [Provider.Unload] hides the probes again; the provider can then be reloaded.
// [Provider.Close] unloads it for good. A provider's resources are released when it and all of
// its probes become unreachable.
//
// A probe that is defined while its provider is loaded becomes part of it at the next
// Load. Until then it is a no-op.
//
// A library defines its probes as package variables and never loads them. The program that uses it
// calls Load of package probeenv once, in main, which loads all providers, and opens a socket or
// begins a recording if the environment requests it. [LoadAll] only loads all providers. It is for
// tests, and for programs that must not grow by the socket and the recorder, which take 0.5 MB.
//
// # Arguments
//
// A probe has up to [MaxArgs] arguments. The compiler checks the arguments of a typed probe:
// up to six, or the fields of a struct. A tracer sees them as follows:
//
//	Go                        note     bpftrace
//	bool, uint8               1@       arg0
//	uint16, uint32            2@ 4@    arg0
//	uint64, uint, uintptr     8@       arg0
//	int8                      -1@      arg0, signed
//	int16, int32              -2@ -4@  arg0, signed
//	int64, int                -8@      arg0, signed
//	unsafe.Pointer            8@       *(struct name *)arg0, the memory that it points to
//	string, []byte            8@       str(arg0)
//	float32, float64          4@ 8@    arg0, the bits of the number
//	time.Time                 -8@      arg0, nanoseconds since 1970
//
// A defined type, such as time.Duration, is treated like its underlying type, but a type that is
// defined from time.Time is not allowed. A field of a [ProbeOf] can also be a pointer to a struct,
// passed as its address.
//
// A string or []byte is passed as a NUL-terminated copy of at most [MaxString] bytes,
// valid until Fire returns. The copy includes text that follows a NUL, but str stops at
// the NUL. bpftrace cuts the text further, at 63 bytes or, in 0.27, at 1023, unless its
// environment sets BPFTRACE_STRLEN.
//
// Two probes of one provider may have the same name if they have the same arguments: they are
// two sites of one event, and tracers attach to both. The same applies to probes of two providers
// of one name: while one provider is loaded, loading the other fails if a probe has different
// arguments in the two.
//
// # Names and types
//
// Arguments can have names; tracers call those without a name arg0, arg1 and so on. For
// [NewProbe1] to [NewProbe6] they follow the probe's name; for a probe of AddProbe,
// [Probe.NameArgs] sets them:
//
//	var request = stapsdt.NewProbe2[string, int32](app, "request__done", "path", "status")
//
// [NewProbeOf] takes the arguments, up to twelve, from the fields of a struct. They have
// the fields' names in snake case, or the names in the fields' tags:
//
//	type Request struct {
//		Path     string
//		Status   int32         `probe:"code"`
//		Duration time.Duration // an int64 of the type time.Duration
//		Conn     *Conn         // a tracer can read the fields of this struct
//	}
//
//	var request = stapsdt.NewProbeOf[Request](app, "request__done")
//
//	request.Fire(Request{Path: r.URL.Path, Status: 200, Duration: d, Conn: c})
//
// Probes of the same name in one provider share the names of their arguments, which are final once
// they are given in any of the three ways. Giving other names later is an error that wraps
// [ErrConflict]. NameArgs returns it, and for a typed probe Load does.
//
// The image contains the names and the Go types as DWARF, which tools read from the file
// that [Provider.Path] returns. They find each probe as a function:
//
//	# bpftrace -lv 'uprobe:FILE:request__done'
//	# bpftrace -e 'uprobe:FILE:request__done { printf("%s %d\n", str(args.path), args.code); }'
//	# perf probe -x FILE --add 'request__done path:string code'
//
// (bpftrace 0.17 spells it args->path.) bpftrace reads the first six arguments in this way.
// Names and types cost nothing while probes fire: the DWARF is in the file and is not
// loaded.
//
// # Concurrency
//
// All functions and methods may be called from any goroutine at any time. Fire,
// FireFunc and Enabled never wait for the provider, whatever it is doing, and are no-ops
// while it is neither loaded nor observed. As with every uprobe, Fire returns only after
// the tracer has handled the event.
//
// # Cost
//
// While no tracer is attached, Fire of a typed probe is inlined: it loads an address, loads a
// byte, compares it and branches. It allocates and copies nothing. Its arguments are
// evaluated, as for any call: if that is expensive, use FireFunc, or call Enabled first. A
// ProbeOf also copies a struct that does not fit into registers. While a tracer is attached, a
// fire costs what the kernel needs for a uprobe; it copies strings and allocates nothing. On a
// virtual Intel Xeon with Linux 6.18 an idle fire took 0.7 ns, a third of what a C program's
// call of a nop took and a fiftieth of a reading of the clock. A fire counted by bpftrace took
// 322 ns: 1.16 times what it took in C, and three times as much as a system call. A recorded
// event took 27 ns with two integers, less than a reading of the clock, and 37 ns with a
// string of 16 bytes and an integer. Load took 59 µs for one probe, or 33 µs if the file was
// there already, and 1.2 ms for a thousand. The tables are in docs/cost.md.
//
// Enabled is advisory: a tracer may attach or detach between it and a Fire.
//
// # Being traced
//
// Being traced does not change what a program does. While it is traced, observed, recorded or
// watched, instrumentation calls no method of the program's values and reads none of its memory
// that the program would not have called or read at that point anyway. It keeps no thread, no
// goroutine and no lock for an operation in flight. The memory that it keeps per operation is
// bounded and stated, and is released. The exceptions are Error of an error that an operation
// returned, with its panics recovered, and the fields of an http.Request. This holds for this
// package, package span and the packages in instrument/. docs/instrumentation.md lists what a
// program could notice nevertheless. Your own instrumentation should do the same: fire only values
// that already exist. SECURITY.md states the bounds, with the tests that keep them.
//
// # Observers
//
// A program can receive its own events, without a tracer, on every operating system, and
// whether or not the provider is loaded:
//
//	stop := app.Observe(func(e *stapsdt.Event) {
//		log.Print(e) // myapp:request__done(path="/index.html", status=200)
//	})
//	defer stop()
//
// Tracers and observers see the same events. See [Provider.Observe] for what an observer may
// do. Package probetest records events in tests, and package proberec keeps the last ones
// in memory or in a file.
//
// # Tracers
//
// Tracers need not know that the probes were made at run time. They read a small file. [WithDir],
// [WithMemfd] and $STAPSDT_DIR choose where it is, and STAPSDT_DEBUG=1 prints its path: see
// https://github.com/go-stapsdt/stapsdt/blob/main/docs/tracers.md.
//
// # Platforms
//
// Probes work on Linux 5.10 and later on amd64 and arm64, with or without cgo, in dynamic
// and static programs. With cgo, the image is built by the C library in cstapsdt if libelf is
// available, both when the program is built (its headers) and when it runs. Otherwise, and
// without cgo (CGO_ENABLED=0, or the build tag stapsdt_nocgo), it is built in Go, with the
// same bytes. In a program with cgo, C code may fork, and the child can continue to fire. With the
// tag stapsdt_nocgo it can, too, because the program then uses slower sites that survive a fork.
//
// riscv64, s390x, ppc64le, 386 and arm are experimental: they pass the tests under
// emulation, but have not been traced on a kernel of their own. (A 386 program can be
// traced by bpftrace on an amd64 kernel.) Not every tracer reads arguments there:
// libbpf has no USDT on ppc64le, nor for a 32-bit program on a 64-bit system, and bcc
// has none on riscv64 and arm. On 386 and arm an int, a uint, a uintptr and a pointer
// have 4 bytes.
//
// On other systems the package compiles, Load returns [ErrUnsupported], and only observers
// see events.
//
// # Failure
//
// A probe never takes the program down. When Load fails, the probes stay no-ops. A
// definition that fails returns a no-op probe. So does a definition with a nil provider, which
// a program can pass to a library to turn off its probes. The exception is a probe that was never
// defined: Fire, FireFunc and Enabled of the zero [Probe], [Probe0] to [Probe6] or [ProbeOf], or of
// a nil one, panic, because a test for these would add an instruction to every Fire.
//
// Every error is an [*Error], except that [LoadAll] joins those of all providers: use errors.As.
// An error on which a program can act wraps one of the sentinels: use errors.Is. [ErrPlace] and
// [ErrMap] mean that the program's environment must change before Load can succeed.
//
// The image is mapped from a file, like every program. Its owner and root can write to
// the file, and can thereby crash the processes that have it mapped, or make them run
// other code. Usually the same user can do that anyway, but not if containers that are
// otherwise separated share the directory. [WithMemfd] keeps the image in sealed
// memory instead.
package stapsdt
