//go:build linux

package symbol

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/root"

	"golang.org/x/sys/unix"
)

// perfMap holds the functions that a just-in-time compiler has generated. The compiler writes their
// addresses to /tmp/perf-PID.map, where PID is the PID in its own namespace.
type perfMap struct {
	path  string
	total *int64    // the bytes left for the maps of all processes
	size  int64     // the size of the file when it was read
	taken int64     // the bytes that this map takes of the total
	next  time.Time // when keep reads the file again
	funcs []jitFunction
}

// jitFunction is a function that a runtime has compiled.
type jitFunction struct {
	start, size uint64
	name        string
}

// maxPerfMap limits the bytes read from one file, and maxPerfMaps the bytes kept from the files of
// all processes. In memory, a map can be several times as large.
const maxPerfMap, maxPerfMaps = 32 << 20, 64 << 20

// maxJitted is the maximum number of functions in a map. It bounds memory, because short lines take
// more memory than file.
const maxJitted = 1 << 19

func newPerfMap(pid int, total *int64) *perfMap {
	status, _ := proc.ReadStatus(pid)
	inside := cmp.Or(status.Word("NSpid", -1), strconv.Itoa(pid))
	return &perfMap{total: total, path: fmt.Sprintf("/proc/%d/root/tmp/perf-%s.map", proc.Task(pid), inside)}
}

// rereadShare bounds the cost of rereading a map to 1/rereadShare of one processor.
const rereadShare = 20

// keep reads the map if it was not read recently, so that it is known after the process has
// exited.
func (p *perfMap) keep(uid uint32) {
	start := time.Now()
	if start.Before(p.next) {
		return
	}
	p.refresh(uid)
	p.next = time.Now().Add(rereadShare * time.Since(start))
}

// refresh reads the map again if the compiler has written to it. The file must belong to the
// process's user or root, because anyone can create a file in /tmp.
func (p *perfMap) refresh(uid uint32) {
	fd, err := unix.Open(p.path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	f := root.NewFile(fd, p.path)
	defer f.Close()
	var stat unix.Stat_t
	if unix.Fstat(fd, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG ||
		stat.Uid != uid && stat.Uid != 0 ||
		stat.Size == p.size {
		return
	}
	left := min(*p.total+p.taken, maxPerfMap)
	p.size, p.funcs = stat.Size, parsePerfMap(io.LimitReader(f, left))
	*p.total += p.taken
	p.taken = min(stat.Size, left)
	*p.total -= p.taken
}

// parsePerfMap reads lines such as "7f0e4c000000 1a0 LazyCompile:~handle /srv/app.js:7". If
// several functions have the same address, it keeps the last one.
func parsePerfMap(r io.Reader) (funcs []jitFunction) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<10)
	for len(funcs) < maxJitted && lines.Scan() {
		parts := strings.SplitN(lines.Text(), " ", 3)
		if len(parts) != 3 {
			continue
		}
		start, err := strconv.ParseUint(strings.TrimPrefix(parts[0], "0x"), 16, 64)
		size, sizeErr := strconv.ParseUint(strings.TrimPrefix(parts[1], "0x"), 16, 64)
		if err == nil && sizeErr == nil && start+size >= start && parts[2] != "" {
			funcs = append(funcs, jitFunction{start, size, parts[2]})
		}
	}
	sort.SliceStable(funcs, func(i, j int) bool { return funcs[i].start < funcs[j].start })
	slices.Reverse(funcs)
	funcs = slices.CompactFunc(funcs, func(a, b jitFunction) bool { return a.start == b.start })
	slices.Reverse(funcs)
	return funcs
}

func (p *perfMap) lookup(address uint64) []Function {
	i := sort.Search(len(p.funcs), func(i int) bool { return p.funcs[i].start > address })
	if i == 0 || address-p.funcs[i-1].start >= p.funcs[i-1].size {
		return nil
	}
	return []Function{{Name: demangled(p.funcs[i-1].name)}}
}
