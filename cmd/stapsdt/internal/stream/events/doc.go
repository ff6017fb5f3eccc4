// Package events delivers events one after another, in the order of their times, in the same form
// from every source: the kernel, the sockets and the pages of programs, and recordings.
package events
