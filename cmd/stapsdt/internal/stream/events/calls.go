package events

// Truth is the truth value of a condition.
type Truth uint8

// The values of a condition.
const (
	// Absent means that the event lacks something that the condition uses.
	Absent Truth = iota
	False
	True
)

// Call is the kernel's data about an event of a function.
type Call struct {
	// G is the address of the goroutine's g, and Depth is the depth of its stack: both are
	// equal for a call and its return. G is 0 on other stacks.
	G, Depth uint64
	// Return means that the event is a return of the function.
	Return bool
	// Failed means that one of the results is an error.
	Failed bool
	// Where holds the values of the conditions of Calls.Where.
	Where []Truth
}

// Calls requests the Call of each event from the kernel.
type Calls struct {
	// Where are conditions. Each is evaluated at the calls and returns that have all the
	// variables it uses.
	Where []string
}
