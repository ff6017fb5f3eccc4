//go:build linux

package doctor

import (
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/elffile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/socket"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/sdt"
	"golang.org/x/sys/unix"
)

// Read collects the facts about this system and a process, of which the first of pids is asked.
// With a spec, they are about the probes that it selects. To find out whether the kernel lets
// probes be traced, it attaches to one of them for a moment.
func Read(pids []int, spec *target.Spec) *Facts {
	f := &Facts{PIDs: pids, PID: pids[0], Spec: spec}
	sys := system{os.DirFS("/")}
	var name unix.Utsname
	_ = unix.Uname(&name) // cannot fail
	f.Host = sys.host(unix.ByteSliceToString(name.Release[:]), unix.ByteSliceToString(name.Machine[:]))
	f.Self = sys.self(os.Getpid())
	f.Process = sys.process(f.PID)
	finder := target.NewFinder()
	defer finder.Close()
	var uses []target.Use
	if f.Process.Alive {
		uses, f.Closed, f.Process.Refused = finder.Process(f.PID)
		if errors.Is(f.Process.Refused, target.ErrNoProcess) {
			f.Process.Alive = false
		}
	}
	f.Process.Socket = dial(f.PID)
	for _, u := range uses {
		f.Images = append(f.Images, image(f.PID, u))
	}
	if spec != nil && spec.File != "" {
		f.named(finder)
	}
	f.relatives(finder)
	if f.looked() && len(uses) == 0 {
		f.without()
	}
	f.try(uses)
	return f
}

// dial connects to the socket of a process.
func dial(pid int) error {
	p, err := socket.Find(pid)
	if err != nil {
		return err
	}
	c, err := p.Dial()
	if err != nil {
		return err
	}
	return c.Close()
}

// image describes a file that the process has mapped.
func image(pid int, u target.Use) Image {
	im := Image{ID: u.ID, Descriptor: -1, Machine: elf.EM_NONE}
	first := u.Mappings[0]
	for _, m := range u.Mappings {
		if m.Executable {
			first = m
			break
		}
	}
	im.Mapping = fmt.Sprintf("%x-%x", first.Start, first.End)
	path, deleted := strings.CutSuffix(first.Path, " (deleted)")
	im.Path, im.Deleted, im.InMemory = path, deleted, deleted && strings.HasPrefix(path, "/memfd:")
	if header, err := elffile.New(u); err == nil {
		im.Machine, im.Class = header.Machine, header.Class
	}
	seen := map[Name]bool{}
	for _, p := range u.Probes {
		n := Name{p.Provider, p.Name}
		if !seen[n] {
			seen[n] = true
			im.Probes = append(im.Probes, n)
		}
	}
	if im.InMemory {
		im.Descriptor = descriptor(pid, u.ID)
		return im
	}
	im.InRoot = leads(fmt.Sprintf("/proc/%d/root%s", pid, im.Path), u.ID)
	im.Here = leads(im.Path, u.ID)
	return im
}

// leads follows a path.
func leads(path string, id target.ID) Leads {
	var stat unix.Stat_t
	switch err := unix.Stat(path, &stat); {
	case err == nil && id == target.ID{Device: stat.Dev, Inode: stat.Ino}:
		return LeadsToImage
	case err == nil:
		return LeadsElsewhere
	case errors.Is(err, fs.ErrPermission):
		return LeadsUnknown
	}
	return LeadsNowhere
}

// descriptor returns the process's descriptor of a file, or -1.
func descriptor(pid int, id target.ID) int {
	directory := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(directory)
	for _, e := range entries {
		if number, err := strconv.Atoi(e.Name()); err == nil && leads(directory+"/"+e.Name(), id) == LeadsToImage {
			return number
		}
	}
	return -1
}

// named looks at the file that the spec names.
func (f *Facts) named(finder *target.Finder) {
	path := f.Spec.File
	var stat unix.Stat_t
	f.Named.InRoot = strings.HasPrefix(path, "/") && unix.Stat(fmt.Sprintf("/proc/%d/root%s", f.PID, path), &stat) == nil
	f.Named.Owner = -1
	if unix.Stat(path, &stat) == nil {
		f.Named.Owner = int(stat.Uid)
	}
	file, err := finder.Open(path)
	if f.Named.Err = err; err != nil {
		return
	}
	f.Named.ID = file.ID
	for _, p := range file.Probes {
		f.Named.HasProbe = f.Named.HasProbe || f.Spec.Match(p.Provider, p.Name)
	}
}

// relatives looks for processes that the user may have been looking for: those that this one has
// started, and others of the same program.
func (f *Facts) relatives(finder *target.Finder) {
	pids, _ := target.Processes()
	exe, err := os.Stat(fmt.Sprintf("/proc/%d/exe", f.PID))
	for _, pid := range pids {
		if pid == f.PID {
			continue
		}
		if err == nil {
			other, otherErr := os.Stat(fmt.Sprintf("/proc/%d/exe", pid))
			if otherErr == nil && os.SameFile(exe, other) && target.Alive(pid) {
				f.Process.Siblings = append(f.Process.Siblings, pid)
			}
		}
		if len(f.Images) > 0 || !startedBy(pid, f.PID) {
			continue
		}
		if uses, _, err := finder.Process(pid); err == nil && len(uses) > 0 {
			f.Process.Children = append(f.Process.Children, pid)
		}
	}
}

// startedBy reports whether a process is a descendant of another.
func startedBy(pid, ancestor int) bool {
	for range 64 { // more than there are, and an end if numbers are reused meanwhile
		if pid = target.Parent(pid); pid <= 1 {
			return false
		}
		if pid == ancestor {
			return true
		}
	}
	return false
}

// library is the module path of this library.
const library = "github.com/go-stapsdt/stapsdt"

// without looks at a process that has no probes.
func (f *Facts) without() {
	if info, err := build(f.PID); err == nil {
		f.Process.HasLibrary = info.Main.Path == library
		for _, m := range info.Deps {
			f.Process.HasLibrary = f.Process.HasLibrary || m.Path == library
		}
	}
	mappings, _ := target.Mappings(f.PID)
	for _, m := range mappings {
		if m.Parked() {
			f.Process.Parked = true
		}
		// An emulator maps what it translates, and does not execute it.
		if f.Process.Emulated == elf.EM_NONE && !m.Executable && m.Offset == 0 && !strings.HasPrefix(m.Path, "/dev/") {
			f.Process.Emulated = emulated(f.PID, m, f.Host.Machine)
		}
	}
}

// build returns the build information of a process's program. It is read with debug/elf, so that
// the headers must be those of a program. A file that runs cannot be changed meanwhile.
func build(pid int) (*buildinfo.BuildInfo, error) {
	exe, err := os.Open(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return nil, err
	}
	defer exe.Close()
	if _, err := elffile.New(exe); err != nil {
		return nil, err
	}
	return buildinfo.Read(exe)
}

// emulated returns the machine of a file with probes if it is not the host's.
func emulated(pid int, m target.Mapping, host elf.Machine) elf.Machine {
	file, err := os.Open(fmt.Sprintf("/proc/%d/map_files/%x-%x", pid, m.Start, m.End))
	if err != nil {
		return elf.EM_NONE
	}
	defer file.Close()
	header, err := elffile.New(file)
	if err != nil || header.Machine == host {
		return elf.EM_NONE
	}
	if probes, _ := sdt.Read(file); len(probes) == 0 {
		return elf.EM_NONE
	}
	return header.Machine
}
