package query

import (
	"fmt"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/expr"
)

// The parts of the key of a Pairing that are not expressions.
const (
	Goroutine = "goroutine"
	Thread    = "thread"
	// Call pairs a function with its returns, by the address of the goroutine's g and the depth
	// of its stack. Both stay the same when the stack moves.
	Call = "call"
)

// Pairing defines which start and end belong together, and which operations are counted.
type Pairing struct {
	// Key lists what a start and its end have in common: expressions of the variables of both
	// probes, Goroutine and Thread, or Call alone. Only events of one process are paired.
	Key []string
	// Where are conditions, and By are expressions. Each is evaluated at the end if the end has its
	// variables, and otherwise at the start.
	Where, By []string
	// AtStart evaluates them at the start, which must have the variables: an operation in flight
	// has no end yet.
	AtStart bool
	// Details also keeps By and the arguments of the start in an open operation, as far as the
	// stack of the kernel's program has room.
	Details bool
	// Kinds means that there may be several kinds of operations with different details.
	Kinds bool
	// Nested also measures, for the key Call, the time of an operation without the operations of
	// its goroutine that are inside it.
	Nested bool
}

// Firer returns the parts of a key that tell who fires an event, for a message.
func Firer(key []string) string {
	var all []string
	for _, part := range key {
		if part == Goroutine || part == Thread {
			all = append(all, part)
		}
	}
	return strings.Join(all, " or ")
}

// KeyTypes returns the error that a part of a key has types at two probes that are never equal.
func KeyTypes(part string, here, there expr.Type) error {
	return fmt.Errorf("the key %s is a %v here, but a %v at another probe", part, here, there)
}

// OnlyStart is the remark on an error of an expression that a start cannot evaluate, with
// AtStart.
const OnlyStart = "an operation in flight has only the arguments of its start"

// MaxOpen is the maximum number of open operations.
const MaxOpen = 1 << 16

// MaxKinds is the maximum number of kinds of operations in one run. A kind has its own starts and
// ends.
const MaxKinds = 2048
