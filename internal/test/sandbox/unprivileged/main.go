//go:build linux

// Command unprivileged runs a program as another user, without any capability, to which the kernel refuses every
// call of bpf and perf_event_open:
//
//	unprivileged UID PROGRAM [ARGUMENT...]
//
// The error is EPERM, or what has the number in the environment variable ERRNO.
package main

import (
	"log"
	"os"
	"runtime"
	"strconv"
	"syscall"

	filter "github.com/elastic/go-seccomp-bpf"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: unprivileged UID PROGRAM [ARGUMENT...]")
	}
	uid, err := strconv.Atoi(os.Args[1])
	check(err)
	refuse := filter.ActionErrno
	if number, err := strconv.Atoi(os.Getenv("ERRNO")); err == nil {
		refuse |= filter.Action(number)
	}
	check(syscall.Setgroups(nil))
	check(syscall.Setgid(uid))
	check(syscall.Setuid(uid))
	runtime.LockOSThread() // it gets no_new_privs, without which the kernel refuses it the filter
	check(filter.LoadFilter(filter.Filter{
		NoNewPrivs: true,
		Flag:       filter.FilterFlagTSync,
		Policy: filter.Policy{
			DefaultAction: filter.ActionAllow,
			Syscalls:      []filter.SyscallGroup{{Names: []string{"bpf", "perf_event_open"}, Action: refuse}},
		},
	}))
	check(syscall.Exec(os.Args[2], os.Args[2:], os.Environ()))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
