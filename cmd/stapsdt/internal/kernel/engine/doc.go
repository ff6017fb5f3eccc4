//go:build linux

// Package engine attaches to the probes of processes, including processes that start later. Any
// number of subscriptions share one engine. Each selects probes, and generates the code that runs
// at their events. One BPF program serves all subscriptions at a site, so that they see the same
// events from the first one on.
//
// An engine is for one goroutine, which calls Run.
package engine
