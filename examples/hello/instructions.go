package main

import (
	"fmt"
	"os"
	"strings"
)

// instructions returns the commands that trace the probe, whose image is at path.
func instructions(path string) string {
	if path == "" {
		return "" // nothing is loaded
	}
	var b strings.Builder
	fmt.Fprintln(&b, "In another terminal, as root:")
	if !strings.HasPrefix(path, "/proc/") {
		command(&b, fmt.Sprintf("-p %d ", os.Getpid()), "*")
		fmt.Fprintln(&b, "or, for every process that has mapped the same file:")
		// In another mount namespace, a tracer finds the file only here.
		path = fmt.Sprintf("/proc/%d/root%s", os.Getpid(), path)
	}
	command(&b, "", path)
	if inContainer() {
		fmt.Fprintf(&b, "Outside of this container, replace %d by the process ID that this command prints there:\n  pgrep -nx hello\n", os.Getpid())
	}
	return b.String()
}

func command(b *strings.Builder, option, where string) {
	fmt.Fprintf(b, "  bpftrace %s-e 'usdt:%s:hello:greeting { printf(\"%%s %%d\\n\", str(arg0), arg1); }'\n", option, where)
}

// inContainer reports whether the process is in a PID namespace other than the first one, whose number the kernel fixes
// (PROC_PID_INIT_INO). It has another process ID outside, which it cannot find out.
func inContainer() bool {
	namespace, err := os.Readlink("/proc/self/ns/pid")
	return err == nil && namespace != "pid:[4026531836]"
}
