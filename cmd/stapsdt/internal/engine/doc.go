//go:build linux

// Package engine attaches to probes: of processes that exist, and of those that come. Any number
// of subscriptions share one engine, each of which says which probes it is about, and what is to
// be done at their events. What it does for several subscriptions at one site is one BPF program,
// so that all of them have the same events from the first one on.
//
// An engine is for one goroutine, which calls Run.
package engine
