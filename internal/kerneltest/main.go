//go:build linux && (amd64 || arm64)

package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"

	"github.com/go-stapsdt/stapsdt/internal/site"

	"golang.org/x/sys/unix"
)

var (
	guest    = flag.Bool("guest", false, "be the first process of a machine: mount, and power off at the end")
	bpftrace = flag.Bool("bpftrace", false, "run the checks that need bpftrace, and only those")
	only     = flag.String("run", "", "run only the checks whose name begins so")
	child    = flag.Bool("child", false, "be the program that bpftrace traces")
)

// check is a thing that must hold on every kernel.
type check struct {
	name string
	run  func(t *T)
}

var checks = []check{
	{"site/chosen", chosenSite},
	{"site/attach", attachableSites},
	{"site/cost", siteCost},
	{"site/bytes", siteBytes},
	{"site/changes", siteChanges},
	{"enabled/file", func(t *T) { enabled(t, inFile) }},
	{"enabled/memfd", func(t *T) { enabled(t, inMemory) }},
	{"arguments/file", func(t *T) { arguments(t, inFile) }},
	{"arguments/memfd", func(t *T) { arguments(t, inMemory) }},
	{"strings", stringArguments},
	{"reload/file", reloadFile},
	{"reload/memfd", reloadMemfd},
	{"reload/count", reloadCount},
	{"reload/running", reloadRunning},
	{"tracefs/file", func(t *T) { tracefs(t, inFile) }},
	{"tracefs/memfd", func(t *T) { tracefs(t, inMemory) }},
}

var bpftraceChecks = []check{
	{"bpftrace/version", bpftraceVersion},
	{"bpftrace/arguments", bpftraceArguments},
	{"bpftrace/string", bpftraceString},
	{"bpftrace/stack", bpftraceStack},
}

func main() {
	flag.Parse()
	if *child {
		runChild()
		return
	}
	failed := true
	if *guest {
		defer powerOff()
		if err := mountAll(); err != nil {
			fmt.Println("FAILED mount:", err)
			return
		}
	}
	fmt.Printf("kernel %s %s, site %s\n", release(), runtime.GOARCH, site.Chosen())
	list := checks
	if *bpftrace {
		list = bpftraceChecks
	}
	failed = !runAll(list)
	if failed && !*guest {
		os.Exit(1)
	}
}

// release returns the kernel's release, as uname -r prints it.
func release() string {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return "?"
	}
	return unix.ByteSliceToString(uts.Release[:])
}
