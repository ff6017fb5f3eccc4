//go:build linux

package target

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// sleeper starts a process with attributes, and returns its number.
func sleeper(t *testing.T, attr *syscall.SysProcAttr) int {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "100")
	attr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = attr
	testenv.Needs(t, "the right to make namespaces", cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd.Process.Pid
}

// TestOwners: whose a process is does not depend on what its user can change: other user numbers in a
// user namespace are those of its maker. Root of a container is not that of the machine.
func TestOwners(t *testing.T) {
	testenv.NeedsRoot(t)
	owners := newOwners(&Skips{})
	require.Nil(t, owners.of(os.Getpid()))
	as := func(uid uint32) *syscall.SysProcAttr {
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	first, second := owners.of(sleeper(t, as(40001))), owners.of(sleeper(t, as(40001)))
	require.Same(t, first, second)
	require.Equal(t, "user 40001", first.id.String())
	require.NotSame(t, first, owners.of(sleeper(t, as(40002))))

	container := owners.of(sleeper(t, &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}))
	require.NotNil(t, container)
	require.Contains(t, container.id.String(), "root of mount namespace")

	unshare := testenv.NeedsTool(t, "unshare", "util-linux")
	cmd := exec.Command(unshare, "-U", "sleep", "100")
	cmd.SysProcAttr = as(40004)
	require.NoError(t, cmd.Start())
	defer cmd.Process.Kill()
	own, _ := proc.Inode("/proc/self/ns/user")
	require.Eventually(t, func() bool {
		inode, ok := proc.Inode(fmt.Sprintf("/proc/%d/ns/user", cmd.Process.Pid))
		return ok && inode != own
	}, testenv.Patience, time.Millisecond)
	require.Equal(t, proc.Owner{UID: 40004}, owners.of(cmd.Process.Pid).id, "and not 65534")

	// Root makes a namespace in which user 40003 is one of many.
	namespaced := as(5)
	namespaced.Cloneflags = syscall.CLONE_NEWUSER
	namespaced.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: 40003, Size: 10}}
	namespaced.GidMappings = namespaced.UidMappings
	require.Nil(t, owners.of(sleeper(t, namespaced)), "it belongs to root, who has made it")
}

// TestBudget: the time that an owner owes makes the owner's files wait, until it has been granted.
func TestBudget(t *testing.T) { synctest.Test(t, testBudget) }

func testBudget(t *testing.T) {
	now := time.Now()
	owners := newOwners(nil)
	owners.now = func() time.Time { return now }
	o := &owner{id: proc.Owner{UID: 7}, all: owners, at: now}
	owners.byID[o.id] = o
	require.False(t, o.late(now))
	o.charge(time.Now().Add(-timeBurst / 2))
	require.False(t, owners.indebted())
	o.charge(time.Now().Add(-timeBurst))
	require.True(t, owners.indebted())
	require.True(t, o.late(now))
	now = now.Add(timeShare * timeBurst)
	require.False(t, owners.indebted())
	owners.purge()
	require.Len(t, owners.byID, 1, "it still owes something")
	now = now.Add(timeShare * timeBurst)
	o.files = 1
	owners.purge()
	require.Len(t, owners.byID, 1, "it has a file")
	o.files = 0
	owners.purge()
	require.Empty(t, owners.byID)

	// Twelve who owe something get half a processor together.
	for uid := range uint32(12) {
		id := proc.Owner{UID: uid}
		owners.byID[id] = &owner{id: id, all: owners, at: now, debt: 2 * timeBurst}
	}
	require.True(t, owners.indebted())
	now = now.Add(time.Second)
	require.Equal(t, 2*timeBurst-time.Second/24, owners.byID[proc.Owner{UID: 3}].owed(now))

	var none *owner // root of the machine
	none.charge(now.Add(-time.Hour))
	require.False(t, none.late(now))
}

// TestLimits: the files and probes of a user in a Finder are limited, and has room again when they
// are forgotten. What was dismissed is remembered up to a limit.
func TestLimits(t *testing.T) {
	f := NewFinder()
	defer f.Close()
	f.Limit()
	o := &owner{id: proc.Owner{UID: 7}, all: f.owners, at: time.Now(), skips: f.Skips()}
	now := time.Now()
	require.False(t, f.refuses(o, now))
	require.False(t, f.refuses(nil, now))
	o.descriptors = maxDescriptors()
	require.True(t, f.refuses(o, now))
	require.Len(t, f.Skips().Unsaid(), 1)
	require.True(t, f.refuses(o, now))
	require.Empty(t, f.Skips().Unsaid(), "it is said once")
	counts := map[string]uint64{}
	f.Skips().Counts(func(reason string, n uint64) { counts[reason] = n })
	require.Equal(t, map[string]uint64{"descriptors": 2, "time": 0, "probes": 0, "mappings": 0, "fuse": 0, "unresponsive": 0}, counts)
	o.descriptors, o.debt = 0, time.Hour
	require.True(t, f.refuses(o, now))

	file := &File{}
	o.open(file)
	spent := 0
	for file.Spend(fmt.Sprint(spent), false) {
		spent++
	}
	require.Equal(t, min((maxDescriptors()-1)/2, maxKinds), spent)
	require.True(t, file.Spend("0", false), "it has that already")
	o.close(file)
	o.debt, o.at = 0, time.Now()
	file.Charge(time.Now().Add(-timeBurst))
	require.GreaterOrEqual(t, o.debt, timeBurst, "the time of closing it counts")
	require.Equal(t, spent, o.descriptors, "the programs remain")
	require.True(t, new(File).Spend("any", false), "root of the machine may")

	// The programs that serve one file alone are released with it, however many files there are.
	o.kinds, o.descriptors = nil, 0
	for range 3 {
		version := &File{}
		o.open(version)
		for i := range 5 {
			require.True(t, version.Spend(fmt.Sprint(i), true))
			require.True(t, version.Spend(fmt.Sprint(i), true))
		}
		require.Equal(t, 1+2*5, o.descriptors)
		o.close(version)
		require.Zero(t, o.descriptors)
		require.Empty(t, o.kinds)
	}

	for i := range 2 * maxIgnored / entrySize {
		f.remember(proc.File{Inode: uint64(i)}, stamp{}, o)
	}
	require.Len(t, f.known, maxIgnored/entrySize+1)
	f.Reconsider()
	require.Empty(t, f.known)
	require.Zero(t, o.ignored)
	f.remember(proc.File{Inode: 1}, stamp{}, o)
	f.remember(proc.File{Inode: 1}, stamp{}, o)
	require.Equal(t, entrySize, o.ignored)
}
