package recorder

import (
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/call"
)

// The offsets in the runtime's g of the goroutine's M, its ID, and the flag that
// debug.SetPanicOnFault sets, on 64-bit architectures; and the bits by which the addresses of Ms
// differ. RATIONALE.md describes the use of these fields.
const (
	offM     = 48
	offGoid  = 152
	offFault = 181
	shiftM   = 11
)

// testedReleases are the releases of Go in whose g TestG has found these fields. With other
// releases, no field is used: every event takes a compare-and-swap, and has no goroutine ID.
var testedReleases = [...]string{"go1.25", "go1.26", "go1.27"}

// tested reports whether a version of Go is of one of these releases. A version with experiments or
// changes of its own is not, because these can change structs.
func tested(version string) bool {
	return !strings.ContainsAny(version, " -+") &&
		slices.ContainsFunc(testedReleases[:], func(release string) bool {
			rest, ok := strings.CutPrefix(version, release)
			// go1.26.8, go1.26rc1, go1.26beta1
			return ok && (rest == "" || strings.ContainsAny(rest[:1], ".rb"))
		})
}

// usesG reports whether the fields of g are used. Prepare calls checkG before.
var usesG = call.GoroutineIsG && (runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64") &&
	tested(runtime.Version())

// checkG checks once that g has the fields. A patched Go can have the version of a release.
var checkG = sync.OnceFunc(func() {
	usesG = usesG && found(offGoid, offFault) && (!hasAssembly || foundM(offM))
})

// found reports whether g has the goroutine's ID and the flag of debug.SetPanicOnFault at these
// offsets.
func found(goid, fault uintptr) bool {
	var trace [64]byte
	n := runtime.Stack(trace[:], false)
	number := strconv.FormatUint(field[uint64](goid), 10)
	old := debug.SetPanicOnFault(true)
	on := field[byte](fault)
	debug.SetPanicOnFault(false)
	off := field[byte](fault)
	debug.SetPanicOnFault(old)
	return strings.HasPrefix(string(trace[:n]), "goroutine "+number+" ") && on == 1 && off == 0
}

// foundM reports whether g has the address of its M at this offset: two goroutines that are locked
// to threads at the same time differ there, and one agrees with itself after it has waited. A wrong
// field could let two threads write to one shard.
func foundM(m uintptr) bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	mine, others := field[uintptr](m), make(chan uintptr)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		others <- field[uintptr](m)
	}()
	other := <-others
	return mine != 0 && other != 0 && mine != other && mine == field[uintptr](m)
}

// goroutine returns the ID of the calling goroutine, or 0 if it is unknown, because reading it from
// a stack trace takes a microsecond.
func goroutine() uint64 {
	if !usesG {
		return 0
	}
	return field[uint64](offGoid)
}

// thread returns the address of the M that runs the calling goroutine. The caller has locked the
// thread.
func thread() uintptr { return field[uintptr](offM) }

// field returns a field of the calling goroutine's g.
func field[T any](offset uintptr) T {
	at := call.Goroutine() + offset
	// SAFETY: the runtime neither moves nor frees a g, and it has a field of this type there, as
	// usesG reports.
	return **(**T)(unsafe.Pointer(&at))
}
