//go:build linux

package doctor

import (
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/recordings"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/root"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"
	"github.com/go-stapsdt/stapsdt/internal/elffile"
	"github.com/go-stapsdt/stapsdt/sdt"

	"golang.org/x/sys/unix"
)

// Read collects the facts about this system and a process. With a spec, they are about the probes
// that it selects. To find out whether the kernel lets probes be traced, it attaches to one of
// them for a moment.
func Read(pid int, spec *spec.Spec) *Facts {
	sys := system{os.DirFS("/")}
	f := &Facts{PID: pid, Spec: spec, Host: sys.host(), Self: sys.self(os.Getpid())}
	f.Process = sys.process(proc.Task(pid))
	var name unix.Utsname
	_ = unix.Uname(&name) // cannot fail
	f.Host.Release = unix.ByteSliceToString(name.Release[:])
	f.Host.Machine = machine("/proc/self/exe", nil)
	f.Self.Missing = rights.New("", nil, rights.BPF, rights.Perfmon, rights.Admin).Missing
	finder := target.NewFinder()
	defer finder.Close()
	var uses []target.Use
	if f.Process.Alive {
		uses, f.Closed, f.Process.Refused = finder.Process(pid)
		f.Process.Alive = !errors.Is(f.Process.Refused, proc.ErrNoProcess)
		f.LeftOut = finder.Skips().Unsaid()
	}
	f.Process.Socket = dial(pid)
	for _, r := range recordings.Of([]int{pid}) {
		if r.Deleted != "" {
			f.Process.Deleted = append(f.Process.Deleted, r)
		}
	}
	for _, u := range uses {
		f.image(u)
	}
	if spec != nil && spec.File != "" {
		f.readNamed(finder)
	}
	f.readRelatives(finder)
	if f.readable() && len(uses) == 0 {
		f.readProgram()
	}
	f.try(uses)
	return f
}

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

// image notes a file that the process has mapped.
func (f *Facts) image(u target.Use) {
	name, deleted := strings.CutSuffix(u.Mappings[0].Path, proc.Deleted)
	im := Image{Path: name, ID: u.ID, Moved: u.Moved}
	im.Deleted = deleted && !strings.HasPrefix(name, "/memfd:")
	for _, p := range u.Probes {
		name := Name{p.Provider, p.Name}
		im.Probes = append(im.Probes, name)
		im.Twice = im.Twice || f.selects(name) && u.Twice(&p)
	}
	f.Images = append(f.Images, im)
	if header, err := elffile.New(u); err == nil && slices.ContainsFunc(im.Probes, f.selects) {
		f.machine(header.Machine)
	}
}

// machine notes the machine of selected probes, unless the kernel's machine executes it.
func (f *Facts) machine(m elf.Machine) {
	narrow := map[elf.Machine]elf.Machine{elf.EM_386: elf.EM_X86_64, elf.EM_ARM: elf.EM_AARCH64}
	if m != elf.EM_NONE && m != f.Host.Machine && narrow[m] != f.Host.Machine &&
		f.Host.Machine != elf.EM_NONE {
		f.Process.Foreign = m
	}
}

// machine returns the machine of an ELF file that also satisfies a condition, or EM_NONE.
func machine(path string, also func(io.ReaderAt) bool) elf.Machine {
	file, err := root.Open(path)
	if err != nil {
		return elf.EM_NONE
	}
	defer file.Close()
	header, err := elffile.New(file)
	if err != nil || also != nil && !also(file) {
		return elf.EM_NONE
	}
	return header.Machine
}

func (f *Facts) readNamed(finder *target.Finder) {
	path := f.Spec.File
	if strings.HasPrefix(path, "/") {
		_, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", proc.Task(f.PID), path))
		f.Named.InRoot = err == nil
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

// readRelatives looks for processes that the user may have been looking for: descendants of this
// process, and other processes of the same program. Those of an interpreter are of the same program
// if they have the same probes.
func (f *Facts) readRelatives(finder *target.Finder) {
	pids, _ := proc.Processes()
	exe, err := os.Stat(fmt.Sprintf("/proc/%d/exe", proc.Task(f.PID)))
	for _, pid := range pids {
		if pid == f.PID {
			continue
		}
		other, otherErr := os.Stat(fmt.Sprintf("/proc/%d/exe", proc.Task(pid)))
		isSame := err == nil && otherErr == nil && os.SameFile(exe, other) && proc.Alive(pid)
		isChild := len(f.Images) == 0 && startedBy(pid, f.PID)
		if !isSame && !isChild {
			continue
		}
		uses, _, err := finder.Process(pid)
		if isSame && (err != nil || f.fires(uses)) {
			f.Process.Siblings = append(f.Process.Siblings, pid)
		}
		if isChild && err == nil && len(uses) > 0 {
			f.Process.Children = append(f.Process.Children, pid)
		}
	}
}

// fires reports whether another process has a selected probe that this process has, or any selected
// probe if this process has none.
func (f *Facts) fires(uses []target.Use) bool {
	has := func(name Name) bool {
		return len(f.Images) == 0 || slices.ContainsFunc(f.Images, func(im Image) bool {
			return slices.Contains(im.Probes, name)
		})
	}
	return slices.ContainsFunc(uses, func(u target.Use) bool {
		return slices.ContainsFunc(u.Probes, func(p sdt.Site) bool {
			name := Name{p.Provider, p.Name}
			return f.selects(name) && has(name)
		})
	})
}

func startedBy(pid, ancestor int) bool {
	for range 64 { // deeper than real trees; bounds the loop if PIDs are reused meanwhile
		if pid = proc.Parent(pid); pid <= 1 || pid == ancestor {
			return pid == ancestor
		}
	}
	return false
}

// readProgram reads the files of a process that has no probes.
func (f *Facts) readProgram() {
	const library = "github.com/go-stapsdt/stapsdt" // the path of this module
	// buildinfo reads the file with debug/elf, so elffile checks its headers first. The file cannot
	// change while it runs.
	machine(fmt.Sprintf("/proc/%d/exe", proc.Task(f.PID)), func(exe io.ReaderAt) bool {
		info, err := buildinfo.Read(exe)
		if err != nil {
			return false
		}
		f.Process.Go = true
		for _, m := range append(info.Deps, &info.Main) {
			f.Process.HasLibrary = f.Process.HasLibrary || m.Path == library
		}
		return true
	})
	mappings, _, _ := proc.Mappings(f.PID)
	for _, m := range mappings {
		f.Process.Parked = f.Process.Parked || m.Parked()
		// An emulator maps the file that it translates, and does not execute it.
		if m.Executable || m.Offset != 0 || strings.HasPrefix(m.Path, "/dev/") {
			continue
		}
		f.machine(machine(m.Link(f.PID), func(file io.ReaderAt) bool {
			probes, _ := sdt.Read(file)
			return slices.ContainsFunc(
				probes, func(p sdt.Site) bool { return f.selects(Name{p.Provider, p.Name}) },
			)
		}))
	}
}
