// Command hostile does what a user can do to a tracer of root, until its standard input ends:
//
//	hostile KIND DIRECTORY PROVIDER NAME
//
// It maps files of its own in the directory, which have the probe PROVIDER:NAME. Kinds are the keys of
// the table below.
package main

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recordfile"
	"github.com/go-stapsdt/stapsdt/internal/wire"
)

type attack struct {
	directory, provider, name string
	made                      int
}

var attacks = map[string]func(*attack){
	// Types that take long to read.
	"types": func(a *attack) {
		f := many(a.provider, a.name, 100)
		f.sections = types(16 << 20)
		a.mapsEach(12, func(int) *file { return f })
	},
	// More files than a tracer has descriptors, whose programs are different each.
	"files": func(a *attack) {
		a.mapsEach(3000, func(i int) *file { return selected(a.provider, a.name, fmt.Sprintf("8@%d(%%rdi)", i)) })
	},
	// As many probes as notes may have.
	"probes": func(a *attack) {
		f := many(a.provider, a.name, 200_000)
		a.mapsEach(12, func(int) *file { return f })
	},
	// A file with as many probes as a tracer takes of a user, which is not hostile.
	"large": func(a *attack) {
		f := &file{large: true}
		for i := range 50_000 {
			f.note(uint64(i), a.provider, a.name, "8@%rdi")
		}
		a.maps(a.writes(f))
	},
	// As many files as a fleet of programs has.
	"fleet": func(a *attack) {
		a.mapsEach(80, func(int) *file { return selected(a.provider, a.name, "8@%rdi") })
	},
	// More files than a tracer takes of a user, each with the same probe.
	"crowd": func(a *attack) {
		a.mapsEach(10_000, func(int) *file { return selected(a.provider, a.name, "8@%rdi") })
	},
	// Files that were damaged at random: $DAMAGED has the seed, how many there are, and the file, with its notes, symbols and types.
	"damaged": func(a *attack) {
		var seed uint64
		var files int
		var whole string
		_, err := fmt.Sscan(os.Getenv("DAMAGED"), &seed, &files, &whole)
		check(err)
		content, err := os.ReadFile(whole)
		check(err)
		random := rand.New(rand.NewPCG(seed, 0))
		for range files {
			path := filepath.Join(a.directory, fmt.Sprint(a.made))
			a.made++
			check(os.WriteFile(path, damage(random, content), 0o755))
			a.maps(path)
		}
	},
	// As many probes of others.
	"others": func(a *attack) {
		f := many("strange", "probe", 200_000)
		a.mapsEach(12, func(int) *file { return f })
	},
	// Tables of symbols that claim to be large.
	"symbols": func(a *attack) {
		a.mapsEach(8, func(i int) *file {
			f := selected(a.provider, a.name, fmt.Sprintf("8@foo%d(%%rip)", i))
			f.sections = []section{
				{name: ".symtab", kind: 2, size: 512 << 20, link: 4, entry: 24},
				{name: ".strtab", kind: 3, size: 512 << 20},
			}
			return f
		})
	},
	// As many mappings as a process may have, with long paths.
	"mappings": func(a *attack) {
		directory := a.directory
		for range 14 {
			directory = filepath.Join(directory, strings.Repeat("d", 250))
			check(os.Mkdir(directory, 0o755))
		}
		a.directory = directory
		path := a.writes(&file{})
		for range 60_000 {
			if _, err := mapFile(path, codeAt); err != nil {
				break
			}
		}
	},
	// Mappings that come and go faster than anyone can look.
	"storm": func(a *attack) {
		path := a.writes(selected(a.provider, a.name, "8@%rdi"))
		go func() {
			for {
				memory, err := mapFile(path, codeAt)
				check(err)
				check(syscall.Munmap(memory))
			}
		}()
	},
	// New files all the time.
	"new": func(a *attack) {
		go func() {
			for i := 0; ; i++ {
				path := a.writes(selected(a.provider, a.name, fmt.Sprintf("8@%d(%%rdi)", i%1000)))
				memory, err := mapFile(path, codeAt)
				check(err)
				check(syscall.Munmap(memory))
				os.Remove(path)
			}
		}()
	},
	// Files that change while they are looked at, and are open for writing.
	"written": func(a *attack) {
		for i := range 20 {
			path := a.writes(selected(a.provider, a.name, fmt.Sprintf("8@%d(%%rdi)", i)))
			a.maps(path)
			go func() {
				small, _ := selected(a.provider, a.name, "8@%rsi").bytes()
				large, _ := many(a.provider, a.name, 1000).bytes()
				for {
					for _, contents := range [][]byte{small, large} {
						f, err := os.OpenFile(path, os.O_WRONLY, 0)
						if err != nil {
							continue
						}
						f.WriteAt(contents, 0)
						f.Close()
					}
				}
			}()
		}
	},
	// A file with many sites, of which the kernel refuses every third, because the address of its semaphore is odd.
	"refused": func(a *attack) {
		f := &file{large: true}
		for i := range 1000 {
			f.counter = 0
			if i%3 == 0 {
				f.counter = codeAt + 1
			}
			f.note(uint64(i), a.provider, a.name, "8@%rdi")
		}
		a.maps(a.writes(f))
	},
	// A file that stays open for writing, and is therefore attached to in one process after another.
	"open": func(a *attack) {
		path := a.writes(selected(a.provider, a.name, "8@%rdi"))
		_, err := syscall.Open(path, syscall.O_WRONLY, 0)
		check(err)
		for range 200 {
			cmd := exec.Command("/proc/self/exe", "given", path, a.provider, a.name)
			cmd.Stdin = os.Stdin
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			check(cmd.Start())
		}
	},
	// Paths that lead to another file at each look.
	"swapped": func(a *attack) {
		paths := []string{a.writes(selected(a.provider, a.name, "8@%rdi")), a.writes(selected("strange", "probe", ""))}
		a.maps(paths[0])
		a.maps(paths[1])
		go func() {
			for {
				check(os.Rename(paths[0], a.directory+"/third"))
				check(os.Rename(paths[1], paths[0]))
				check(os.Rename(a.directory+"/third", paths[1]))
			}
		}()
	},
	// Names that are none.
	"names": func(a *attack) {
		f := &file{}
		for i := range 1000 {
			f.note(uint64(i), a.provider, a.name, "8@%rdi -4@foo@\x1b]0;PWNED\a\x1b[31m\nX")
			f.note(uint64(i), a.provider, a.name+strings.Repeat("x", 1000), "8@%rdi")
			f.note(1<<40, "\x1b[31m"+a.provider, "\n", "8@%rdi")
		}
		a.maps(a.writes(f))
	},
	// Write leases, which opens for reading wait for, and which are taken again after each.
	"leases": func(a *attack) {
		signal.Ignore(syscall.SIGIO)
		lease := func(f *os.File) error {
			_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), 1024 /* F_SETLEASE */, syscall.F_WRLCK)
			if errno != 0 {
				return errno
			}
			return nil
		}
		var files []*os.File
		for i := range 3 {
			f, err := os.OpenFile(a.writes(selected(a.provider, a.name, fmt.Sprintf("8@%d(%%rdi)", i))), os.O_RDWR, 0)
			check(err)
			_, err = syscall.Mmap(int(f.Fd()), codeAt, codeSize, syscall.PROT_READ|syscall.PROT_EXEC, syscall.MAP_PRIVATE)
			check(err)
			check(lease(f))
			files = append(files, f)
		}
		go func() {
			for {
				time.Sleep(200 * time.Millisecond)
				for _, f := range files {
					_ = lease(f)
				}
			}
		}()
	},
	// A file that is there already, whose path is given for the directory.
	"given": func(a *attack) {
		_, err := mapFile(a.directory, 0)
		check(err)
	},
	// A program that listens, and sends a descriptor of a file, whose path is given for the directory, with the message of this name.
	"descriptor": func(a *attack) {
		f, err := os.Open(a.directory)
		check(err)
		var self recording.Head
		recordfile.Describe(&self)
		path := filepath.Join(os.Getenv("STAPSDT_DIR"), wire.SocketName(uint32(os.Getpid()), self.Start, 1))
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		check(err)
		go func() {
			for {
				c, err := l.AcceptUnix()
				check(err)
				go sendTo(c, a.name, f)
			}
		}()
	},
	// A process that waits, when it is told to, for a page of a file, whose path is given for the directory, with the lock of its
	// memory map, for which another thread waits too.
	"waiting": func(a *attack) {
		f, err := os.Open(a.directory)
		check(err)
		page, err := syscall.Mmap(int(f.Fd()), 0, os.Getpagesize(), syscall.PROT_READ, syscall.MAP_SHARED)
		check(err)
		memory, err := os.Open("/proc/self/mem")
		check(err)
		told := make(chan bool)
		go func() { // in threads that there are before, because a new one could wait too
			runtime.LockOSThread()
			<-told
			memory.ReadAt(make([]byte, 1), int64(uintptr(unsafe.Pointer(&page[0]))))
		}()
		go func() {
			runtime.LockOSThread()
			<-told
			time.Sleep(100 * time.Millisecond)
			syscall.Mmap(-1, 0, os.Getpagesize(), syscall.PROT_READ, syscall.MAP_PRIVATE|syscall.MAP_ANON)
		}()
		fmt.Println("ready")
		_, err = os.Stdin.Read(make([]byte, 1))
		check(err)
		close(told)
	},
	// A file of which a part is gone.
	"holes": func(a *attack) {
		for range 100 {
			path := a.writes(selected(a.provider, a.name, "8@%rdi"))
			a.maps(path)
			check(os.Truncate(path, 4096))
		}
	},
}

// sendTo answers a watcher, whose answer to a request has a descriptor.
func sendTo(c *net.UnixConn, with string, f *os.File) {
	answer := func(kind wire.Kind, name string, body []byte) {
		var rights []byte
		if name == with {
			rights = syscall.UnixRights(int(f.Fd()))
		}
		_, _, _ = c.WriteMsgUnix(wire.Append(nil, kind, body), rights, nil)
	}
	for {
		kind, _, err := wire.Read(c)
		if err != nil {
			return
		}
		switch kind {
		case wire.KindHello:
			answer(kind, "hello", (&wire.Hello{Major: wire.Major, PID: uint32(os.Getpid())}).Append(nil))
		case wire.KindList:
			answer(wire.KindDone, "list", nil)
		case wire.KindWatch:
			answer(wire.KindWatching, "watch", (&wire.Watching{Bytes: 1 << 20}).Append(nil))
		default:
			answer(wire.KindDone, "", nil)
		}
	}
}

// damage returns a copy of a file in which bytes are others, mostly few.
func damage(random *rand.Rand, whole []byte) []byte {
	b := bytes.Clone(whole)
	from := 64
	if random.IntN(8) == 0 {
		from = 0 // with a damaged head, little else is read
	}
	for range 1 + random.IntN(1<<random.IntN(8)) {
		at := from + random.IntN(len(b)-from)
		switch random.IntN(4) {
		case 0:
			b[at] = 0xff
		case 1:
			b[at] ^= 1 << random.IntN(8)
		case 2:
			copy(b[at:], b[random.IntN(len(b)):][:min(random.IntN(64), len(b)-at)])
		default:
			b[at] = byte(random.Uint32())
		}
	}
	return b
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// writes writes a file and returns its path.
func (a *attack) writes(f *file) string {
	path := filepath.Join(a.directory, fmt.Sprint(a.made))
	a.made++
	contents, size := f.bytes()
	check(os.WriteFile(path, contents, 0o755))
	check(os.Truncate(path, max(size, int64(len(contents)))))
	return path
}

// maps maps the code of a file.
func (a *attack) maps(path string) {
	_, err := mapFile(path, codeAt)
	check(err)
}

// mapsEach writes and maps n files.
func (a *attack) mapsEach(n int, f func(i int) *file) {
	for i := range n {
		a.maps(a.writes(f(i)))
	}
}

func mapFile(path string, offset int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return syscall.Mmap(int(f.Fd()), offset, codeSize, syscall.PROT_READ|syscall.PROT_EXEC, syscall.MAP_PRIVATE)
}

func main() {
	if len(os.Args) != 5 {
		log.Fatal("usage: hostile KIND DIRECTORY PROVIDER NAME")
	}
	do := attacks[os.Args[1]]
	if do == nil {
		log.Fatalf("there is no kind %q", os.Args[1])
	}
	do(&attack{directory: os.Args[2], provider: os.Args[3], name: os.Args[4]})
	fmt.Println("ready")
	io.Copy(io.Discard, os.Stdin)
}
