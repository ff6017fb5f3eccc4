package testenv

import (
	"os/exec"
	"strings"
)

// SystemCalls returns the names of system calls, and those in systemd's sets, such as @system-service, in place of these.
func SystemCalls(names ...string) (all []string, err error) {
	for _, name := range names {
		if !strings.HasPrefix(name, "@") {
			all = append(all, name)
			continue
		}
		out, err := exec.Command("systemd-analyze", "syscall-filter", name).Output()
		if err != nil {
			return nil, err
		}
		var members []string
		for line := range strings.Lines(string(out)) {
			if word := strings.TrimSpace(line); strings.HasPrefix(line, " ") && !strings.HasPrefix(word, "#") {
				members = append(members, word)
			}
		}
		calls, err := SystemCalls(members...)
		if err != nil {
			return nil, err
		}
		all = append(all, calls...)
	}
	return all, nil
}
