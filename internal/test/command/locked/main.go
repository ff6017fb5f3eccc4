//go:build linux

// Command locked runs a command under a seccomp filter that refuses what tracers do: the system
// calls bpf and perf_event_open, as a container's profile does.
package main

import (
	"log"
	"os"
	"syscall"

	filter "github.com/elastic/go-seccomp-bpf"
)

func main() {
	err := filter.LoadFilter(filter.Filter{NoNewPrivs: true, Flag: filter.FilterFlagTSync, Policy: filter.Policy{
		DefaultAction: filter.ActionAllow,
		Syscalls:      []filter.SyscallGroup{{Names: []string{"bpf", "perf_event_open"}, Action: filter.ActionErrno}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(syscall.Exec(os.Args[1], os.Args[1:], os.Environ()))
}
