//go:build linux

package target

import (
	"cmp"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/internal/elffile"
	"github.com/go-stapsdt/stapsdt/internal/lazyregexp"
	"github.com/go-stapsdt/stapsdt/sdt"

	"golang.org/x/sys/unix"
)

// neighbors returns the files that are mapped directly before or after copies of code. A program
// that has moved its code has one of its other segments there. Both lists are in the order of the
// addresses.
func neighbors(files, copies []proc.Mapping) map[proc.File]bool {
	if len(copies) == 0 {
		return nil
	}
	near := map[proc.File]bool{}
	for _, c := range copies {
		next, _ := slices.BinarySearchFunc(files, c.Start, startsAt)
		for _, m := range files[max(next-1, 0):min(next+1, len(files))] {
			near[m.File] = true
		}
	}
	return near
}

func startsAt(m proc.Mapping, address uint64) int { return cmp.Compare(m.Start, address) }

// noteMoved reports whether a process has moved the code of a site of the file, and notes that in
// Moves.
func (f *File) noteMoved(pid int, mappings, copies []proc.Mapping) bool {
	if !f.moved(mappings, copies) {
		return false
	}
	if f.Moves == nil {
		f.Moves = fmt.Errorf("process %d has moved the code of %s to memory that has no file, such as huge pages, where nothing can be traced", pid, f.Path)
	}
	return true
}

// moved reports whether a copy of code is mapped where a process that has mapped the file would
// execute a site. It takes time for the mappings, the segments and the sites, but not for their
// products.
func (f *File) moved(mappings, copies []proc.Mapping) bool {
	if len(copies) == 0 {
		return false
	}
	var copied []span // in the file
	for bias := range f.biases(mappings) {
		for _, p := range f.segments {
			if p.Flags&elf.PF_X == 0 {
				continue
			}
			start, end := bias+p.Vaddr, bias+p.Vaddr+p.Filesz
			next, _ := slices.BinarySearchFunc(copies, start+1, startsAt)
			for _, c := range copies[max(next-1, 0):] {
				if c.Start >= end || len(copied) == maxCopied {
					break
				}
				if from, to := max(c.Start, start), min(c.End, end); from < to {
					copied = append(copied, span{from - start + p.Off, to - start + p.Off})
				}
			}
		}
	}
	if len(copied) == 0 {
		return false
	}
	var code []span
	for _, m := range mappings {
		if m.Executable {
			code = append(code, span{m.Offset, m.Offset + m.End - m.Start})
		}
	}
	copied, code = join(copied), join(code)
	return slices.ContainsFunc(f.Probes, func(s sdt.Site) bool {
		return has(copied, s.Offset) && !has(code, s.Offset)
	})
}

const (
	maxBiases = 16 // of a file in a process, which is mapped once or a few times
	maxCopied = 1 << 12
)

// biases returns the differences between addresses in a process and those in the file.
func (f *File) biases(mappings []proc.Mapping) map[uint64]bool {
	page := uint64(os.Getpagesize()) - 1
	byOffset := map[uint64][]uint64{}
	for _, p := range f.segments {
		byOffset[p.Off&^page] = append(byOffset[p.Off&^page], p.Vaddr&^page)
	}
	biases := map[uint64]bool{}
	for _, m := range mappings {
		for _, address := range byOffset[m.Offset] {
			if len(biases) < maxBiases {
				biases[m.Start-address] = true
			}
		}
	}
	return biases
}

// span is a part of a file.
type span struct{ start, end uint64 }

// join sorts spans, and joins those that overlap.
func join(all []span) (joined []span) {
	slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.start, b.start) })
	for _, s := range all {
		if n := len(joined); n > 0 && s.start <= joined[n-1].end {
			joined[n-1].end = max(joined[n-1].end, s.end)
		} else {
			joined = append(joined, s)
		}
	}
	return joined
}

// has reports whether one of the spans, which were joined, has an offset.
func has(all []span, offset uint64) bool {
	next, _ := slices.BinarySearchFunc(all, offset+1, func(s span, at uint64) int {
		return cmp.Compare(s.start, at)
	})
	return next > 0 && offset < all[next-1].end
}

// findMoved notes which processes run a file, and whether any of them has moved its code.
func (f *Finder) findMoved(file *File) {
	pids, _ := proc.Processes()
	for _, pid := range pids {
		exe := fmt.Sprintf("/proc/%d/exe", proc.Task(pid))
		path, err := os.Readlink(exe)
		if err != nil || filepath.Base(path) != filepath.Base(file.Path) {
			continue
		}
		if stat, err := statPath(path, exe); err != nil || file.ID != (ID{stat.Dev, stat.Ino}) {
			continue
		}
		file.Running = append(file.Running, pid)
		mappings, copies, _ := f.mappings(pid)
		mappings = slices.DeleteFunc(mappings, func(m proc.Mapping) bool { return m.Path != path })
		file.noteMoved(pid, mappings, copies)
	}
}

// readSegments reads the loaded segments, and whether the program moves its code.
func (f *File) readSegments() {
	header, err := elffile.New(f.content)
	if err != nil {
		return
	}
	f.segments = nil
	for _, p := range header.Progs {
		if p.Type == elf.PT_LOAD {
			f.segments = append(f.segments, p.ProgHeader)
		}
	}
	// The section has the command line of BOLT, and strip leaves it.
	if s := header.Section(".note.bolt_info"); s != nil {
		info, _ := elffile.Data(s, maxBoltInfo)
		setting, _ := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
		var name unix.Utsname
		_ = unix.Uname(&name) // cannot fail
		if hugifies(string(info), string(setting), unix.ByteSliceToString(name.Release[:])) {
			f.Moves = fmt.Errorf("%s moves its code to memory that has no file when it starts, because BOLT has built it with --hugify", f.Path)
		}
	}
}

// maxBoltInfo limits the command line of BOLT.
const maxBoltInfo = 64 << 10

var (
	hugify        = lazyregexp.New(`\s--?hugify(=true|=1)?[\s\x00]`)
	hugifyAllText = lazyregexp.New(`\s--?hugify-all-text(=true|=1)?[\s\x00]`)
)

// hugifies reports whether a program of BOLT moves its code at its start, on a kernel of a release
// with a setting for transparent huge pages. With all text, it does so if these are enabled.
// Otherwise it does so if the page cache cannot have them, as before Linux 5.10.
func hugifies(info, setting, release string) bool {
	enabled := strings.Contains(setting, "[always]") || strings.Contains(setting, "[madvise]")
	var major, minor int
	_, _ = fmt.Sscanf(release, "%d.%d", &major, &minor)
	cached := enabled && (major > 5 || major == 5 && minor >= 10)
	return enabled && hugifyAllText().MatchString(info) || !cached && hugify().MatchString(info)
}
