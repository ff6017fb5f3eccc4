//go:build linux

package target

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/sdt"
)

// Use is a file with probes that a process has mapped.
type Use struct {
	*File
	// Mappings are the mappings of the file, in the order of their addresses.
	Mappings []proc.Mapping
	// Moved means that the process has moved the code of a site to memory that has no file, where
	// no tracer reaches it.
	Moved bool
}

// Twice reports whether the process has mapped the semaphore of a site twice, for example because
// dlmopen has loaded a library again. The kernel raises only one of the two.
func (u *Use) Twice(s *sdt.Site) bool {
	n := 0
	for _, m := range u.Mappings {
		if m.Writable && m.Has(s.SemaphoreOffset) {
			n++
		}
	}
	return s.SemaphoreOffset != 0 && n > 1
}

// slowMaps is the time that reading a memory map may take before it counts against a budget.
const slowMaps = 5 * time.Millisecond

// mappings returns the mappings of files in a process, and the executable memory to which it can
// have copied code.
func (f *Finder) mappings(pid int) (files, copies []proc.Mapping, err error) {
	start := time.Now()
	all, more, err := proc.FilesAndCopies(pid)
	if time.Since(start) > slowMaps {
		f.owners.of(pid).charge(start)
	}
	if more {
		who := "a process"
		if o := f.owners.of(pid); o != nil {
			who += " of " + o.id.String()
		}
		f.skips.add(skipMappings, "%s has mapped too much: the rest is left out", who)
	}
	if errors.Is(err, fs.ErrPermission) {
		err = rights.New(fmt.Sprintf("reading the memory map of process %d", pid), err, rights.Ptrace)
	}
	for _, m := range all {
		if m.IsFile() {
			files = append(files, m)
		} else {
			copies = append(copies, m)
		}
	}
	return files, copies, err
}

// byFile groups mappings by file, in the order of the first mapping of each file.
func byFile(mappings []proc.Mapping) (all [][]proc.Mapping) {
	at := map[proc.File]int{}
	for _, m := range mappings {
		i, known := at[m.File]
		if !known {
			i = len(all)
			at[m.File], all = i, append(all, nil)
		}
		all[i] = append(all[i], m)
	}
	return all
}
