package recorder

import (
	"runtime"

	"github.com/go-stapsdt/stapsdt/internal/proc"

	"golang.org/x/sys/unix"
)

// debug writes to standard error how fires append to the recording, if STAPSDT_DEBUG=1 is in the
// environment.
func (w *Writer) debug() {
	if proc.Getenv("STAPSDT_DEBUG") == "1" {
		_, _ = unix.Write(unix.Stderr, []byte("stapsdt: recording: "+w.means()+"\n"))
	}
}

// means describes how fires append.
func (w *Writer) means() string {
	switch {
	case w.hasSlots:
		return "threads have shards of their own, for " + runtime.Version()
	case w.inAssembly:
		return "threads share shards: the clock's readings do not differ"
	case !usesG:
		return "one compare-and-swap for each event: the fields of the runtime's g are not known for " + runtime.Version() + " on " + runtime.GOARCH
	}
	return "one compare-and-swap for each event: there is no assembly for " + runtime.GOARCH
}
