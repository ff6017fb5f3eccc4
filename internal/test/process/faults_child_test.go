//go:build linux && (amd64 || arm64)

package process

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/go-stapsdt/stapsdt"

	"golang.org/x/sys/unix"
)

// This file is what a program does whose system calls fail. faults_test.go makes
// them fail.

// faultProbes is how many probes the child's provider has.
const faultProbes = 3

// faulty is a provider in a program whose system calls may fail, and what is
// wrong with it.
type faulty struct {
	p        *stapsdt.Provider
	probe    *stapsdt.Probe
	dir      string
	demanded bool // by an option
	kept     int  // mappings of other providers of that name
	marked   bool // see mark
	problems []string
}

// newFaulty makes a provider that is kept in dir, where the environment says so.
func newFaulty(dir string, opts ...stapsdt.Option) *faulty {
	f := &faulty{p: stapsdt.NewProvider("faulty", opts...), dir: dir, kept: len(mapped("faulty"))}
	for i := range faultProbes {
		probe, err := f.p.AddProbe(fmt.Sprint("event", i), stapsdt.Int32, stapsdt.String)
		f.check(err == nil, "define: %v", err)
		f.probe = probe
	}
	return f
}

// newDemanding makes one that may be in no other place than dir.
func newDemanding(dir string) *faulty {
	f := newFaulty(dir, stapsdt.WithDir(dir))
	f.demanded = true
	return f
}

func (f *faulty) check(ok bool, format string, args ...any) {
	if !ok {
		f.problems = append(f.problems, fmt.Sprintf(format, args...))
	}
}

// report prints what is wrong.
func (f *faulty) report() {
	for _, problem := range f.problems {
		fmt.Println("problem:", problem)
	}
}

// begin loads, which nothing may keep it from.
func (f *faulty) begin() {
	err := f.p.Load()
	f.check(err == nil, "load: %v", err)
}

// mark makes a call, between two system calls that the tracer of them takes for
// marks.
func (f *faulty) mark(call func() error) error {
	if !f.marked {
		return call()
	}
	unix.Getppid()
	err := call()
	unix.Getppid()
	return err
}

// load loads, and finds the provider as its answer says.
func (f *faulty) load() (failed bool) {
	descriptors, maps := openFiles(), mapped("faulty")
	err := f.mark(f.p.Load)
	if err == nil {
		f.loaded()
		return false
	}
	var e *stapsdt.Error
	f.check(errors.As(err, &e) && e.Op == "load" && e.Code != stapsdt.NoError, "load: %#v", err)
	f.check(!strings.Contains(err.Error(), "\n"), "load: %q", err)
	f.check(told(err), "load: %#v", err)
	f.check(!f.p.Loaded() && f.p.Path() == "", "loaded, after %v", err)
	f.idle()
	f.check(slices.Equal(descriptors, openFiles()), "left open by %v: %q, not %q", err, openFiles(), descriptors)
	f.check(slices.Equal(maps, mapped("faulty")), "left mapped by %v: %q, not %q", err, mapped("faulty"), maps)
	fmt.Println("load:", err)
	return true
}

// told reports whether an error of Load wraps the sentinel of its code, and says what
// that means once.
func told(err error) bool {
	var e *stapsdt.Error
	if !errors.As(err, &e) || e.Code != stapsdt.TmpCreation && e.Code != stapsdt.SharedLibraryOpen {
		return true
	}
	is, other := stapsdt.ErrPlace, stapsdt.ErrMap
	if e.Code == stapsdt.SharedLibraryOpen {
		is, other = other, is
	}
	return errors.Is(err, is) && !errors.Is(err, other) && strings.Count(err.Error(), is.Error()) == 1
}

// loaded finds a loaded provider where Path says that it is.
func (f *faulty) loaded() {
	path := f.p.Path()
	f.check(f.p.Loaded(), "not loaded")
	if path == "" { // the link of /proc that names this process could not be read
		f.check(!f.demanded && len(mapped("faulty")) == f.kept+1, "loaded, but where?")
		f.idle()
		return
	}
	f.check(filepath.Dir(path) == f.dir || !f.demanded && filepath.Dir(path) == fmt.Sprintf("/proc/%d/fd", os.Getpid()), "loaded at %q", path)
	file, err := elf.NewFile(bytes.NewReader(content(path)))
	f.check(err == nil, "%s: %v", path, err)
	if err == nil {
		symbols, err := file.DynamicSymbols()
		f.check(err == nil && len(symbols) == faultProbes, "%s: %v, %v", path, symbols, err)
	}
	name := path
	if filepath.Dir(path) != f.dir {
		name = "/memfd:faulty (deleted)"
	}
	f.check(slices.ContainsFunc(mapped("faulty"), func(line string) bool {
		return strings.HasSuffix(line, " "+name) && strings.Contains(line, " r-xp ")
	}), "%s is not mapped: %q", name, mapped("faulty"))
	f.idle()
}

// idle fires a probe to which no tracer is attached.
func (f *faulty) idle() {
	f.check(!f.probe.Enabled(), "enabled")
	err := f.probe.Fire(1, "text")
	f.check(err == nil, "fire: %v", err)
}

// unload unloads or closes. A mapping is left only where the error says so.
func (f *faulty) unload(what string, call func() error) (failed bool) {
	err := f.mark(call)
	f.check(!f.p.Loaded() && f.p.Path() == "", "loaded after %s", what)
	f.idle()
	if err == nil {
		f.check(len(mapped("faulty")) == f.kept, "mapped after %s: %q", what, mapped("faulty"))
		return false
	}
	var e *stapsdt.Error
	f.check(errors.As(err, &e) && e.Op == "unload" && e.Code == stapsdt.SharedLibraryClose, "%s: %#v", what, err)
	f.check(len(mapped("faulty")) == f.kept+1, "mapped after %s: %q", what, mapped("faulty"))
	fmt.Println(what+":", err)
	return true
}

// files finds nothing in the directory beside the image, and that as it should be.
// temps are allowed where a temporary file's removal was made to fail.
func (f *faulty) files(temps int) {
	entries, err := os.ReadDir(f.dir)
	f.check(err == nil || errors.Is(err, os.ErrNotExist), "%v", err)
	images := 0
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") && temps > 0 {
			temps--
			continue
		}
		images++
		image := content(filepath.Join(f.dir, entry.Name()))
		f.check(strings.HasPrefix(entry.Name(), "faulty-") && bytes.HasPrefix(image, []byte(elf.ELFMAG)),
			"a stray file: %s, %d bytes", entry.Name(), len(image))
	}
	f.check(images <= 1, "%d files: %v", images, entries)
}

// faultChild loads, unloads, loads again and closes, in the directory that it is
// given, and then does it once more with another provider, when nothing fails
// any more. It prints how many calls failed, and what is wrong.
//
//	file|memfd|demand DIRECTORY TEMPS
func faultChild(args []string) {
	runtime.LockOSThread() // the calls are counted by thread
	// The heap grows now, and not between the marks.
	runtime.KeepAlive(make([]byte, 8<<20))
	runtime.GC()
	debug.SetGCPercent(-1)
	fmt.Println("ready")
	// Until the tracer is there, which may count this call, or not: it is none of
	// those that are counted.
	unix.Poll([]unix.PollFd{{Fd: 0, Events: unix.POLLIN}}, -1)
	temps := 0
	fmt.Sscan(args[2], &temps)

	before := openFiles()
	make := func() *faulty { return newFaulty(args[1]) }
	switch args[0] {
	case "memfd":
		make = func() *faulty { return newFaulty(args[1], stapsdt.WithMemfd()) }
	case "demand":
		make = func() *faulty { return newDemanding(args[1]) }
	}
	f := make()
	f.marked = true
	fails := 0
	count := func(failed bool) {
		if failed {
			fails++
		}
	}
	failed := f.load()
	count(failed)
	if !failed {
		count(f.unload("unload", f.p.Unload))
	}
	count(f.load())
	count(f.unload("close", f.p.Close))
	f.files(temps)
	f.left(before)

	again := make()
	again.check(!again.load(), "a later load failed")
	if args[0] != "memfd" {
		again.check(filepath.Dir(again.p.Path()) == again.dir, "a later load is at %s", again.p.Path())
	}
	again.check(!again.unload("close", again.p.Close), "a later close failed")
	f.report()
	again.report()
	fmt.Println("failed", fails)
}

// left finds no descriptor that was not open before, but for the process's parked
// slots.
func (f *faulty) left(before []string) {
	for _, file := range openFiles() {
		f.check(slices.Contains(before, file) || file == "/memfd:stapsdt-parked (deleted)", "left open: %s", file)
	}
}

// openFiles lists what the process has open, but for what Go's poller opens.
func openFiles() (list []string) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return []string{err.Error()}
	}
	for _, entry := range entries {
		if link, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && !strings.HasPrefix(link, "anon_inode:[event") {
			list = append(list, link)
		}
	}
	slices.Sort(list)
	return list
}

// mapped lists the lines of the process's mappings of images of a provider.
func mapped(provider string) (list []string) {
	for _, line := range strings.Split(string(content("/proc/self/maps")), "\n") {
		if strings.Contains(line, "/"+provider+"-") || strings.Contains(line, "/memfd:"+provider+" ") {
			list = append(list, line)
		}
	}
	return list
}

// content reads a file, with fewer system calls than os.ReadFile.
func content(path string) (all []byte) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	for buf := make([]byte, 64<<10); ; {
		n, err := unix.Read(fd, buf)
		if err == unix.EINTR { // which was meant for another call
			continue
		}
		if n <= 0 || err != nil {
			return all
		}
		all = append(all, buf[:n]...)
	}
}

// limitChild loads with ever more descriptors, from none, and with no more
// address space than it has.
//
//	DIRECTORY
func limitChild(args []string) {
	runtime.KeepAlive(make([]byte, 32<<20))
	runtime.GC()
	debug.SetGCPercent(-1)
	attempt := func(what string, resource int, limit uint64, sentinel error) (failed bool) {
		f := newFaulty(args[0])
		var old unix.Rlimit
		f.check(unix.Getrlimit(resource, &old) == nil, "getrlimit")
		before := openFiles()
		f.check(syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit, Max: old.Max}) == nil, "setrlimit")
		err := f.p.Load()
		unloaded := f.p.Unload()
		f.check(syscall.Setrlimit(resource, &syscall.Rlimit{Cur: old.Cur, Max: old.Max}) == nil, "setrlimit")
		var e *stapsdt.Error
		f.check(err == nil || errors.As(err, &e) && e.Code != stapsdt.NoError, "%s: %#v", what, err)
		f.check(told(err), "%s: %#v", what, err)
		f.check(err == nil || errors.Is(err, sentinel) || e.Code == stapsdt.ELFCreation, "%s: %#v", what, err)
		f.check(unloaded == nil || errors.As(unloaded, &e) && e.Code == stapsdt.SharedLibraryClose, "%s: %#v", what, unloaded)
		f.left(before)
		f.check(!f.load(), "%s: a later load failed", what)
		f.check(filepath.Dir(f.p.Path()) == f.dir, "%s: a later load is at %s", what, f.p.Path())
		f.check(!f.unload("close", f.p.Close), "%s: a later close failed", what)
		f.files(0)
		f.report()
		fmt.Printf("%s: %v, %v\n", what, err, unloaded)
		return err != nil
	}
	failed := 0
	free, err := unix.Dup(0) // the lowest descriptor that is free
	if err != nil {
		panic(err)
	}
	unix.Close(free)
	for n := range 8 {
		if attempt(fmt.Sprint(n, " descriptors"), unix.RLIMIT_NOFILE, uint64(max(0, free+n-1)), stapsdt.ErrPlace) {
			failed++
		}
	}
	if attempt("address space", unix.RLIMIT_AS, 1, stapsdt.ErrMap) {
		failed++
	}
	fmt.Println("failed", failed)
}

// vanishChild removes what is in a directory, without pause, until it is killed.
//
//	DIRECTORY
func vanishChild(args []string) {
	fmt.Println("removing")
	for {
		entries, _ := os.ReadDir(args[0])
		for _, entry := range entries {
			os.Remove(filepath.Join(args[0], entry.Name()))
		}
	}
}

// killedChild loads and unloads until it is killed, and sees to it that some of
// its loads write a file.
//
//	DIRECTORY
func killedChild(args []string) {
	fmt.Println("loading")
	for i := 0; ; i++ {
		f := newFaulty(args[0])
		f.begin()
		if i%2 == 0 {
			os.Remove(f.p.Path())
		}
		f.p.Close()
		f.report()
	}
}
