//go:build linux

package symbol

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"slices"
	"sort"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/debugfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/deputy"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/internal/elffile"
	"golang.org/x/sys/unix"
)

// Symbolizer finds the functions of processes. It must be used by one goroutine only.
type Symbolizer struct {
	byPID   map[int]*process
	modules map[proc.File]*Module
	// perfMaps and tables are the bytes left for the maps of just-in-time compilers and for the
	// tables of files. They are limited because any user of the machine can make large ones.
	perfMaps, tables int64
	debug            *debugfile.Finder
	sources          *sources
	// Verbose keeps the frames of this library.
	Verbose bool
}

// process describes a process, even after it has exited.
type process struct {
	pid int
	uid uint32
	// maps are its memory maps, the newest last. There may be several, because a process can exec
	// another program.
	maps [][]proc.Mapping
	jit  *perfMap
	vdso *Module
}

// NewSymbolizer returns a Symbolizer that knows no process. debug finds files with symbols that
// were stripped.
func NewSymbolizer(debug *debugfile.Finder) *Symbolizer {
	return &Symbolizer{
		byPID: map[int]*process{}, modules: map[proc.File]*Module{},
		perfMaps: maxPerfMaps, tables: maxTables, debug: debug, sources: newSources(),
	}
}

// Close closes the files.
func (s *Symbolizer) Close() {
	for _, m := range s.modules {
		m.source.close()
		if m.close != nil {
			_ = m.close()
		}
	}
}

// maxMaps is the maximum number of memory maps of a process that are kept.
const maxMaps = 8

// Look reads the memory map of a process, and opens the files in it, so that both are known
// after the process has exited. It does nothing if the process has exited already.
func (s *Symbolizer) Look(pid int) {
	mappings, err := proc.CodeMappings(pid)
	if err != nil || len(mappings) == 0 {
		return
	}
	entry := s.byPID[pid]
	if entry == nil {
		entry = &process{pid: pid, jit: newPerfMap(pid, &s.perfMaps)}
		s.byPID[pid] = entry
		var stat unix.Stat_t
		if unix.Stat(fmt.Sprintf("/proc/%d", pid), &stat) == nil {
			entry.uid = stat.Uid
		}
	}
	entry.jit.keep(entry.uid)
	if n := len(entry.maps); n > 0 && slices.Equal(entry.maps[n-1], mappings) {
		return
	}
	if len(entry.maps) == maxMaps {
		entry.maps = entry.maps[1:]
	}
	entry.maps = append(entry.maps, mappings)
	for i := range mappings {
		switch m := &mappings[i]; {
		case m.IsFile():
			s.open(pid, m)
		case m.Path == "[vdso]" && entry.vdso == nil:
			entry.vdso = readVDSO(pid, m, &s.tables)
		}
	}
}

func (s *Symbolizer) open(pid int, m *proc.Mapping) {
	if known := s.modules[m.File]; known != nil && known.content != nil {
		return
	}
	module := &Module{Path: m.Path, left: &s.tables, sources: s.sources}
	s.modules[m.File] = module
	if f, err := target.OpenMapping(pid, *m); err == nil {
		module.content, module.close = f, f.Close
		module.debug = func(headers *elf.File, wanted debugfile.Content) (*debugfile.File, error) {
			p, err := f.Program(headers, pid, m.Path)
			if err != nil {
				return nil, err
			}
			return s.debug.Find(p, wanted)
		}
	}
}

// readVDSO reads the code that the kernel gives to a process, which is an ELF file in memory.
func readVDSO(pid int, m *proc.Mapping, left *int64) *Module {
	module := &Module{Path: m.Path, left: left}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", proc.Task(pid)))
	if err != nil {
		return module
	}
	defer memory.Close()
	const largest = 1 << 20
	size := min(m.End-m.Start, largest)
	if data := elffile.ReadSome(deputy.Reader{File: memory}, int64(m.Start), size); data != nil {
		module.content = bytes.NewReader(data)
	}
	return module
}

// Stack finds the functions of a stack from which a process has fired a probe. The first address
// is the address of the site, and depth is the maximum number of addresses.
func (s *Symbolizer) Stack(pid int, probe string, addresses []uint64, depth int) *Stack {
	stack := &Stack{}
	if !s.known(pid, addresses) {
		s.Look(pid)
	}
	entry := s.byPID[pid]
	if entry == nil {
		stack.Exited = true
		for _, a := range addresses {
			stack.Frames = append(stack.Frames, Frame{Address: a})
		}
		return stack
	}
	n := len(entry.maps) - 1
	for i := n; i >= 0 && coverage(entry.maps[n], addresses) < len(addresses); i-- {
		if coverage(entry.maps[i], addresses) > coverage(entry.maps[n], addresses) {
			n = i
		}
	}
	for i, a := range addresses {
		// The following addresses are not return addresses: they were read from a register that
		// is not a frame pointer.
		if i > 0 && find(entry.maps[n], a) == nil {
			break
		}
		stack.Frames = append(stack.Frames, s.frame(entry, entry.maps[n], a, i > 0))
		if stack.Frames[i].isTop() {
			break
		}
	}
	stack.end(depth)
	if !s.Verbose {
		stack.trim(probe)
	}
	stack.unwrap()
	return stack
}

// known reports whether the newest memory map of a process contains all addresses.
func (s *Symbolizer) known(pid int, addresses []uint64) bool {
	entry := s.byPID[pid]
	return entry != nil && coverage(entry.maps[len(entry.maps)-1], addresses) == len(addresses)
}

func coverage(mappings []proc.Mapping, addresses []uint64) (n int) {
	for _, a := range addresses {
		if find(mappings, a) != nil {
			n++
		}
	}
	return n
}

func find(mappings []proc.Mapping, address uint64) *proc.Mapping {
	i := sort.Search(len(mappings), func(i int) bool { return mappings[i].End > address })
	if i == len(mappings) || address < mappings[i].Start {
		return nil
	}
	return &mappings[i]
}

// frame finds the functions at an address. If returns is set, it is a return address, which follows
// the call.
func (s *Symbolizer) frame(
	entry *process, mappings []proc.Mapping, address uint64, returns bool,
) Frame {
	pc := address
	if returns {
		pc--
	}
	m := find(mappings, address)
	if m == nil {
		return Frame{Address: address}
	}
	module, offset := entry.vdso, address-m.Start+m.Offset
	if m.IsFile() {
		module = s.modules[m.File]
	} else if m.Path != "[vdso]" {
		module = nil
	}
	if module != nil {
		if at, ok := module.address(offset); ok {
			return Frame{Address: at, Module: module, Functions: module.lookup(at - (address - pc))}
		}
	}
	fns := entry.jit.lookup(pc)
	if fns == nil {
		entry.jit.refresh(entry.uid)
		fns = entry.jit.lookup(pc)
	}
	if module != nil {
		return Frame{Address: offset, Module: module, Functions: fns}
	}
	return Frame{Address: address, Functions: fns}
}
