//go:build linux

package target

import (
	"debug/buildinfo"
	"debug/dwarf"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/debugfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/function"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/internal/debuginfo"
	"github.com/go-stapsdt/stapsdt/internal/elffile"
)

// ErrNoGoid means that the offset of the goroutine ID in a program is unknown.
var ErrNoGoid = errors.New("goroutines cannot be told apart")

// goidOffsets are the offsets of goid in runtime.g on 64-bit architectures, by the minor
// number of the release.
var goidOffsets = map[int]uint32{22: 152, 23: 160, 24: 160, 25: 152, 26: 152, 27: 152}

// machine is the machine on which this program runs.
var machine = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]

// exeKey returns the key of a process's program for package stall.
func exeKey(pid int) any { return stall.Of{Owner: proc.OwnerOf(pid), System: pid} }

// StatExe returns the file information of a process's program.
func StatExe(pid int) (os.FileInfo, error) {
	path := fmt.Sprintf("/proc/%d/exe", proc.Task(pid))
	return stall.Do(exeKey(pid), func() (os.FileInfo, error) { return os.Stat(path) }, nil)
}

// GoidOffset returns the offset of the goroutine's ID in the runtime.g of a process: from a
// table, if the table has the program's Go version, and otherwise from the program's debug
// information, which debug finds if it was separated. The error is ErrNoGoid if neither has it,
// ErrNoProcess or a *rights.Error.
func GoidOffset(pid int, debug *debugfile.Finder) (uint32, error) {
	exe, err := openExe(pid)
	if errors.Is(err, fs.ErrPermission) {
		return 0, rights.New(fmt.Sprintf("opening the program of process %d", pid), err, rights.Ptrace)
	}
	if err != nil {
		return 0, proc.Wrap(pid, err)
	}
	defer exe.Close()
	path, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", proc.Task(pid)))
	separate := func(headers *elf.File) (*debugfile.File, error) {
		p, err := exe.Program(headers, pid, path)
		if err != nil {
			return nil, err
		}
		return debug.Find(p, debugfile.DWARF)
	}
	offset, err := goidOffset(exe, separate)
	if err != nil && exe.stalled.Load() {
		return 0, proc.Wrap(pid, stall.Err)
	}
	if err != nil {
		return 0, fmt.Errorf("process %d: %w: %w", pid, ErrNoGoid, err)
	}
	return offset, nil
}

// openExe opens the program of a process.
func openExe(pid int) (*Content, error) {
	path := fmt.Sprintf("/proc/%d/exe", proc.Task(pid))
	return openContent(exeKey(pid), func() (*os.File, error) { return open(path) })
}

// IsGo reports whether a process runs a Go program, as far as its file can be read.
func IsGo(pid int) bool {
	exe, err := openExe(pid)
	if err != nil {
		return false
	}
	defer exe.Close()
	if _, err := elffile.New(exe); err != nil {
		return false
	}
	_, err = buildinfo.Read(exe)
	return err == nil
}

func goidOffset(
	exe io.ReaderAt, separate func(*elf.File) (*debugfile.File, error),
) (uint32, error) {
	file, err := elffile.New(exe)
	if err != nil {
		return 0, err
	}
	if file.Machine != machine {
		return 0, fmt.Errorf("the program was built for %v", file.Machine)
	}
	info, err := buildinfo.Read(exe)
	if err != nil {
		return 0, errors.New("its program has no build information of Go")
	}
	if offset, ok := goidOffsets[function.Release(info.GoVersion)]; ok {
		return offset, nil
	}
	if !debuginfo.In(file) {
		if debug, err := separate(file); err == nil {
			defer debug.Close()
			file = debug.ELF
		}
	}
	offset, err := goidFromDWARF(file)
	if err != nil {
		return 0, fmt.Errorf("its program was built by %s, whose goroutines are unknown, and its debug information does not describe them: %w", info.GoVersion, err)
	}
	return offset, nil
}

const (
	// maxDWARF is the maximum number of bytes of a program's DWARF that are read to find goid, and
	// dwarfWork limits the work of reading them, in the unit of debuginfo.Entries.
	maxDWARF  = 256 << 20
	dwarfWork = 1 << 22
)

// goidFromDWARF reads the offset of goid in the struct runtime.g.
func goidFromDWARF(file *elf.File) (uint32, error) {
	data, err := debuginfo.Read(file, maxDWARF)
	if err != nil {
		return 0, err
	}
	if data == nil {
		return 0, errors.New("there is none")
	}
	r := &debuginfo.Entries{R: data.Reader(), Left: dwarfWork}
	for _, u := range data.Units {
		e, err := r.At(u.Entry)
		if err == nil && (e == nil || e.Val(dwarf.AttrName) != "runtime") {
			continue
		}
		if err == nil {
			e, err = child(r, e, dwarf.TagStructType, "runtime.g")
		}
		if err == nil && e != nil {
			e, err = child(r, e, dwarf.TagMember, "goid")
		}
		if err != nil {
			return 0, err
		}
		if e == nil {
			continue // the package has several units
		}
		if offset, ok := e.Val(dwarf.AttrDataMemberLoc).(int64); ok {
			return uint32(offset), nil
		}
	}
	return 0, errors.New("there is no runtime.g")
}

// child returns the child of an entry with a tag and a name, or nil.
func child(
	r *debuginfo.Entries, e *dwarf.Entry, tag dwarf.Tag, name string,
) (found *dwarf.Entry, err error) {
	if e, err = r.At(e.Offset); err == nil {
		err = r.Children(e, func(c *dwarf.Entry) {
			if c.Tag == tag && c.Val(dwarf.AttrName) == name {
				found = c
			}
		})
	}
	return found, err
}
