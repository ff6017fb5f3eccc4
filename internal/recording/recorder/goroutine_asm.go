//go:build (amd64 || arm64) && !stapsdt_noload

package recorder

import (
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
)

// offGoid is where the runtime's g has its number. Only the assembly uses it.
const (
	offGoid = 152
	_       = offGoid
)

// number returns the number of the calling goroutine, if it is where it was when this was written.
func number() uint64

// numbers says whether it is: 0 until that is known, and then isFound or isElsewhere. A variable that is
// set when the program starts would be in every program.
var numbers atomic.Uint32

const (
	isFound = 1 + iota
	isElsewhere
)

// numberIsFound reports whether the number is where it was.
func numberIsFound() bool {
	if numbers.Load() == 0 {
		found := uint32(isElsewhere)
		if number() == numberInStack() {
			found = isFound
		}
		numbers.Store(found)
	}
	return numbers.Load() == isFound
}

// goroutine returns the number of the calling goroutine, or 0 if it is unknown.
func goroutine() uint64 {
	if !numberIsFound() {
		return 0
	}
	return number()
}

// numberInStack returns the number of the calling goroutine from the head of its stack trace,
// "goroutine 1 [running]:".
func numberInStack() uint64 {
	var b [64]byte
	head := string(b[:runtime.Stack(b[:], false)])
	head = strings.TrimPrefix(head, "goroutine ")
	number, _, _ := strings.Cut(head, " ")
	n, _ := strconv.ParseUint(number, 10, 64)
	return n
}
