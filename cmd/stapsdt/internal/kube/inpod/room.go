//go:build linux

package inpod

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/live"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
	"github.com/go-stapsdt/stapsdt/internal/recording/recordfile"

	"golang.org/x/sys/unix"
)

// ErrShort means that a pod is short of memory.
var ErrShort = errors.New("the pod is short of memory")

// Allowance limits the memory of a pod that a command may use.
type Allowance struct {
	// Memory is the number of bytes that it may allocate.
	Memory int64
	// Limit is the limit of the container with which it shares the memory, or 0 if there is none.
	Limit int64
	// Container is the ID of the selected container. Alone means that it has its own PID namespace,
	// and Shared that it shares the limit with the command.
	Container     string
	Alone, Shared bool
	// Interval is the interval between two checks of the memory, or 0 for the default of commands,
	// watchInterval.
	Interval time.Duration
	// rings is the memory that programs had allocated for the events of other commands when this
	// one began.
	rings int64
}

const (
	// reserveShare is the share of a limit that commands leave free, 1/reserveShare.
	reserveShare = 8
	// minReserve has room for the kernel, and for memory that a watched program and a command
	// share.
	minReserve = 8 << 20
	// ringShare is the share of the limit, 1/ringShare, and spareShare that of the memory left
	// beside the reserve, that programs may take for the events of a command.
	ringShare  = 8
	spareShare = 2
)

// reserve returns the memory that the command leaves free. The command has to end before the kernel
// kills a process: in a pod that requests little memory, the program's own oom_score_adj is nearly
// 1000, so the kernel kills the larger of the two.
func (a *Allowance) reserve() int64 { return max(a.Limit/reserveShare, minReserve) }

// check returns ErrShort if fewer than needed bytes are left in addition to the reserve.
func (a *Allowance) check(needed int64) error {
	if a.Limit == 0 {
		return nil
	}
	return a.fits(needed, a.room())
}

// fits returns ErrShort if the needed bytes and the reserve do not fit into room.
func (a *Allowance) fits(needed, room int64) error {
	if room >= needed+a.reserve() {
		return nil
	}
	takes := ""
	if needed > 0 {
		takes = fmt.Sprintf("takes %d and ", needed)
	}
	return fmt.Errorf("%w: %d of its %d bytes are left, but this command %shas to leave %d",
		ErrShort, max(room, 0), a.Limit, takes, a.reserve())
}

// RingLimit returns the limit for the memory that programs make for the events of this command, or
// 0 if no limit of the pod is known. It returns ErrShort if the pod has no room for it.
func (a *Allowance) RingLimit() (int64, error) {
	if a.Limit == 0 || !a.Shared {
		return 0, nil
	}
	return a.ringLimit(a.room())
}

func (a *Allowance) ringLimit(room int64) (int64, error) {
	least := recorder.Size(recorder.Chunks(0))
	if err := a.fits(spareShare*least, room); err != nil {
		return 0, err
	}
	return min(a.Limit/ringShare, (room-a.reserve())/spareShare), nil
}

// held is the size of the recording that this process holds.
var held atomic.Int64

// room returns the number of bytes left of the limit. It estimates it, because a container cannot
// see the pod's control group.
func (a *Allowance) room() int64 {
	pids := append(neighbors(), os.Getpid())
	var files int64
	if a.Shared {
		beside := inside(a.Container, a.Alone)
		for _, pid := range beside {
			if !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
		if len(beside) > 0 {
			files = inMemory(beside[0])
		}
	}
	used := files + held.Load() + a.rings + live.Rings()
	for _, pid := range pids {
		used += resident(pid)
	}
	return min(recordfile.MemoryRoom().Bytes, a.Limit-used)
}

// resident returns the resident memory of a process without the contents of files on a disk.
func resident(pid int) int64 {
	status, _ := proc.ReadStatus(proc.Task(pid))
	if pid == os.Getpid() {
		return sizeOf(status, "RssAnon") // its recording and the memory for its events are counted already
	}
	return sizeOf(status, "RssAnon") + sizeOf(status, "RssShmem")
}

// watched returns the size of the memory that the programs of a container have allocated for the
// events of commands. The kernel charges all of it to them, but counts only the used part as
// resident.
func (a *Allowance) watched() (size int64) {
	if !a.Shared {
		return 0
	}
	for _, pid := range inside(a.Container, a.Alone) {
		size += proc.RingSize(pid)
	}
	return size
}

// sizeOf returns a size of a process in bytes, or 0.
func sizeOf(status proc.Status, name string) int64 {
	n, _ := strconv.ParseInt(status.Word(name, 0), 10, 64)
	return n << 10
}

// inMemory returns the size of the in-memory files that a process sees, such as the files of an
// emptyDir. /dev/shm and others count once.
func inMemory(pid int) (size int64) {
	task := proc.Task(pid)
	mounts, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", task))
	seen := map[unix.Fsid]bool{}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[2] != "tmpfs" {
			continue
		}
		var fs unix.Statfs_t
		if unix.Statfs(fmt.Sprintf("/proc/%d/root%s", task, fields[1]), &fs) == nil && !seen[fs.Fsid] {
			seen[fs.Fsid] = true
			size += int64(fs.Blocks-fs.Bfree) * fs.Bsize
		}
	}
	return size
}
