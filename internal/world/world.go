// Package world stops all goroutines for a moment, as the runtime does.
package world

import "runtime"

// StopOnce returns after every goroutine has been stopped at a point where it may be preempted, and
// continued. None is then in assembly that it had entered before, because assembly is not
// preempted. Stack is called for this effect alone: without room for a stack, it does nothing else.
func StopOnce() { runtime.Stack(nil, true) }
