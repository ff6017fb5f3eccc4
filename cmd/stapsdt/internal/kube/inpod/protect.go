//go:build linux

package inpod

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"

	"golang.org/x/sys/unix"
)

const (
	// minMemory is the memory that every command takes.
	minMemory = 24 << 20
	// firstVictim is the highest value of oom_score_adj, with which the kernel kills this process
	// before all others of the pod.
	firstVictim = "1000"
	// watchInterval is the interval between two checks of the memory.
	watchInterval = 50 * time.Millisecond
	// watchShare limits the checks to 1/watchShare of a processor if there are many processes.
	watchShare = 100
)

// ProtectPod limits the memory of this process, which counts against the pod's limit. When memory
// is short, the process ends, or the kernel kills it first if the program's own oom_score_adj is
// low.
func ProtectPod(to *console.Console, a Allowance) error {
	// Where huge pages serve all programs, the heap would take more of the pod's memory. A kernel
	// without huge pages refuses this.
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte(firstVictim), 0); err != nil {
		return fmt.Errorf("the program could be killed for the memory of this command: %w", err)
	}
	a.Memory = max(a.Memory, minMemory)
	debug.SetMemoryLimit(a.Memory * 3 / 4)
	if err := bound(2 * a.Memory); err != nil {
		return err
	}
	a.rings = a.watched()
	if err := a.check(0); err != nil {
		return err
	}
	go a.watch(to)
	return nil
}

// watch ends this process when it takes too much memory, or too little is left.
func (a *Allowance) watch(to *console.Console) {
	for interval := max(watchInterval, a.Interval); ; {
		time.Sleep(interval)
		began := time.Now()
		taken := ownSize("RssAnon")
		err := a.check(0)
		if taken > a.Memory {
			err = fmt.Errorf("this command has taken %d bytes of the pod's memory, but may take only %d", taken, a.Memory)
		}
		if err != nil {
			to.Warn("%v: this command ends", err)
			os.Exit(1)
		}
		interval = max(watchInterval, a.Interval, watchShare*time.Since(began))
	}
}

func ownSize(name string) int64 {
	status, _ := proc.ReadStatus(os.Getpid())
	return sizeOf(status, name)
}
