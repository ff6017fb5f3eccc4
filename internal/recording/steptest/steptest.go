//go:build linux

// Package steptest steps through the instructions of a thread that records.
package steptest

import (
	"runtime"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// EachInstruction executes the instructions of a thread one by one. Before one is executed for the first few times,
// committed reads the recording, and returns how many events the thread has committed since the beginning: a step adds one at most.
// The caller has skipped the test where programs are emulated, before it started the thread.
func EachInstruction(t *testing.T, tid int, committed func() uint64) {
	t.Helper()
	steps, often := 40_000, 5 // reading at each step would take long, and most steps copy texts
	if testing.Short() {
		steps, often = 2_000, 2
	}
	runtime.LockOSThread() // only this thread may trace
	defer runtime.UnlockOSThread()
	wait := func() {
		var status unix.WaitStatus
		_, err := unix.Wait4(tid, &status, unix.WALL, nil)
		require.NoError(t, err)
		require.True(t, status.Stopped(), "%#x", status)
	}
	testenv.Needs(t, "ptrace", unix.PtraceAttach(tid))
	defer unix.PtraceDetach(tid)
	wait()
	first := committed()
	before, unread := first, false
	visits := map[uint64]int{} // the number of visits of each instruction
	var regs unix.PtraceRegs
	for last := uint64(0); steps > 0; {
		require.NoError(t, unix.PtraceGetRegs(tid, &regs))
		pc := regs.PC()
		if pc != last { // an instruction that copies many bytes takes a step for each
			last, steps = pc, steps-1
		}
		if visits[pc]++; visits[pc] > often {
			unread = true
		} else {
			all := committed()
			require.GreaterOrEqual(t, all, before)
			require.True(t, unread || all <= before+1, "%d after %d", all, before)
			before, unread = all, false
		}
		require.NoError(t, unix.PtraceSingleStep(tid))
		wait()
	}
	t.Logf("stepped through %d instructions, and %d records", len(visits), before-first)
}
