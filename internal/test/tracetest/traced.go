//go:build linux

package tracetest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/sdt"
)

// Traced counts the sites of a probe, and those at which a tracer is attached.
type Traced struct{ Sites, Traced int }

// TracedProbes returns the probes of a process and its descendants, by PROVIDER:PROBE. Tests call it repeatedly until a tracer is
// attached, for which a run of the command takes too long. A tracer is attached where the memory of a process differs from its file. It needs
// root.
func TracedProbes(pid string) map[string]Traced {
	all := map[string]Traced{}
	for _, pid := range descendants(pid) {
		threads, _ := filepath.Glob("/proc/" + pid + "/task/*")
		for _, thread := range threads {
			if countTraced("/proc/"+filepath.Base(thread), all) {
				break
			}
		}
	}
	return all
}

// descendants returns the PIDs of a process and its descendants.
func descendants(pid string) (all []string) {
	all = []string{pid}
	lists, _ := filepath.Glob("/proc/" + pid + "/task/*/children")
	for _, list := range lists {
		children, _ := os.ReadFile(list)
		for _, child := range strings.Fields(string(children)) {
			all = append(all, descendants(child)...)
		}
	}
	return all
}

// countTraced adds the probes of a process, and reports whether the thread has not ended: then it has the process's memory.
func countTraced(thread string, all map[string]Traced) bool {
	maps, _ := os.ReadFile(thread + "/maps")
	memory, err := os.Open(thread + "/mem")
	if len(maps) == 0 || err != nil {
		return false
	}
	defer memory.Close()
	for line := range strings.Lines(string(maps)) {
		var (
			start, end, from uint64
			perms            string
		)
		if n, _ := fmt.Sscanf(line, "%x-%x %s %x", &start, &end, &perms, &from); n != 4 || !strings.Contains(perms, "x") {
			continue
		}
		file, err := os.Open(fmt.Sprintf("%s/map_files/%x-%x", thread, start, end))
		if err != nil {
			continue // it is not a file, or is unmapped by now
		}
		sites, _ := sdt.Read(file)
		sites = slices.DeleteFunc(sites, func(s sdt.Site) bool { return s.Offset < from || s.Offset-from >= end-start })
		for _, site := range sites {
			// Whatever a tracer puts there begins with another byte than a nop, on amd64 and on arm64. The next byte may be another site.
			var mapped, original [1]byte
			_, err := memory.ReadAt(mapped[:], int64(start+site.Offset-from))
			if err == nil {
				_, err = file.ReadAt(original[:], int64(site.Offset))
			}
			if err != nil {
				continue
			}
			of := all[site.Provider+":"+site.Name]
			of.Sites++
			if mapped != original {
				of.Traced++
			}
			all[site.Provider+":"+site.Name] = of
		}
		file.Close()
	}
	return true
}
