// Package raw lets packages of this module read an event as a whole, where its exported
// methods, which return one argument at a time, would take too long.
package raw

import "sync/atomic"

// Event returns the words of a *stapsdt.Event, of which there is one for each argument, and its
// texts: the strings, each with a NUL after it, and where each one ends, before its NUL. All are
// valid as long as the event is. The root package sets Event before there are events.
var Event atomic.Pointer[func(e any) (words []uint64, texts []byte, ends []uint16)]
