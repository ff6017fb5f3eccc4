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
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/elffile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stall"
)

// ErrNoGoid means that the offset of the goroutine ID in a program is unknown.
var ErrNoGoid = errors.New("goroutines cannot be told apart")

// goidOffsets are the offsets of goid in runtime.g on 64-bit architectures, by the version of
// Go. Older versions cannot build programs with the probes of this library.
var goidOffsets = map[string]uint32{"go1.25": 152, "go1.26": 152, "go1.27": 152}

// exeKey returns the key of a process's program for package stall.
func exeKey(pid int) any { return stall.Of{Owner: identify(pid), System: pid} }

// StatExe returns the file information of a process's program.
func StatExe(pid int) (os.FileInfo, error) {
	return stall.Do(exeKey(pid), func() (os.FileInfo, error) { return os.Stat(fmt.Sprintf("/proc/%d/exe", pid)) }, nil)
}

// GoidOffset returns the offset of the goroutine's ID in the runtime.g of a process: from a
// table, if the table has the program's Go version, and otherwise from the program's debug
// information. The error is ErrNoGoid if neither has it, ErrNoProcess or a *rights.Error.
func GoidOffset(pid int) (uint32, error) {
	path := fmt.Sprintf("/proc/%d/exe", pid)
	exe, err := openContent(exeKey(pid), func() (*os.File, error) { return open(path) })
	if errors.Is(err, fs.ErrPermission) {
		return 0, rights.New(fmt.Sprintf("opening the program of process %d", pid), err, rights.Ptrace)
	}
	if err != nil {
		return 0, proc.Wrap(pid, err)
	}
	defer exe.Close()
	offset, err := goidOffset(exe)
	if err != nil {
		return 0, fmt.Errorf("process %d: %w: %w", pid, ErrNoGoid, err)
	}
	return offset, nil
}

func goidOffset(exe io.ReaderAt) (uint32, error) {
	file, err := elffile.New(exe)
	if err != nil {
		return 0, err
	}
	if machine := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]; file.Machine != machine {
		return 0, fmt.Errorf("its program is for %v", file.Machine)
	}
	info, err := buildinfo.Read(exe)
	if err != nil {
		return 0, errors.New("its program has no build information of Go")
	}
	if offset, ok := goidOffsets[release(info.GoVersion)]; ok {
		return offset, nil
	}
	offset, err := goidFromDWARF(file)
	if err != nil {
		return 0, fmt.Errorf("its program was built by %s, whose goroutines are unknown, and its debug information does not describe them: %w", info.GoVersion, err)
	}
	return offset, nil
}

// release returns the Go release of a version: go1.26 for go1.26.8 and go1.26rc1. It returns
// "" for an unreleased version, and for a version with experiments, which can change structs.
func release(version string) string {
	if strings.ContainsAny(version, " -+") {
		return ""
	}
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return ""
	}
	minor := parts[1]
	if i := strings.IndexFunc(minor, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		minor = minor[:i]
	}
	return parts[0] + "." + minor
}

// goidFromDWARF reads the offset of goid in the struct runtime.g.
func goidFromDWARF(file *elf.File) (uint32, error) {
	const most = 256 << 20 // a compressed section can be a thousand times as large as the file
	if size := elffile.Keep(file, ".debug_info", ".debug_abbrev", ".debug_str", ".debug_line_str", ".debug_str_offsets", ".debug_addr"); size > most {
		return 0, fmt.Errorf("its %d bytes exceed the limit of %d", size, most)
	}
	data, err := file.DWARF()
	if err != nil {
		return 0, err
	}
	r := data.Reader()
	for {
		e, err := r.Next()
		switch {
		case err != nil:
			return 0, err
		case e == nil:
			return 0, errors.New("there is no runtime.g")
		case e.Tag == dwarf.TagCompileUnit:
			if name, _ := e.Val(dwarf.AttrName).(string); name != "runtime" {
				r.SkipChildren()
			}
			continue
		case e.Tag != dwarf.TagStructType || e.Val(dwarf.AttrName) != "runtime.g":
			r.SkipChildren()
			continue
		}
		for {
			m, err := r.Next()
			if err != nil {
				return 0, err
			}
			if m == nil || m.Tag == 0 {
				return 0, errors.New("runtime.g has no goid")
			}
			offset, ok := m.Val(dwarf.AttrDataMemberLoc).(int64)
			if m.Tag == dwarf.TagMember && m.Val(dwarf.AttrName) == "goid" && ok {
				return uint32(offset), nil
			}
		}
	}
}
