package query

// The keys of a Pairing that are not expressions.
const (
	Goroutine = "goroutine"
	Thread    = "thread"
	// Call pairs a function with its returns, by the address of the goroutine's g and the depth
	// of its stack. Both stay the same when the stack moves.
	Call = "call"
)

// Pairing defines which start and end belong together, and which operations are counted.
type Pairing struct {
	// Key is an expression of the variables of both probes, or Goroutine, Thread or Call. Only
	// events of one process are paired.
	Key string
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
}

// OnlyStart is the remark on an error of an expression that a start cannot evaluate, with
// AtStart.
const OnlyStart = "an operation in flight has only the arguments of its start"

// MaxOpen is the maximum number of open operations.
const MaxOpen = 1 << 16

// MaxKinds is the maximum number of kinds of operations in one run. A kind has its own starts and
// ends.
const MaxKinds = 1024
