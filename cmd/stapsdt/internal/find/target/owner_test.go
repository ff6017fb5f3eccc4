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
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// sleeper starts a process with attributes, and returns its number.
func sleeper(t *testing.T, attr *syscall.SysProcAttr) int {
	t.Helper()
	cmd := exec.Command("/bin/sleep", "100")
	attr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = attr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd.Process.Pid
}

// TestOwners: whose a process is does not depend on what its user can change: other user numbers
// in a user namespace are those of its maker. Root of a container is not that of the machine.
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

	testenv.NeedsNamespaces(t, "user", syscall.CLONE_NEWUSER)
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
	owners := newOwners(nil)
	add := func(uid uint32) *owner {
		o := &owner{id: proc.Owner{UID: uid}, all: owners}
		owners.byID[o.id] = o
		return o
	}
	o := add(7)
	require.False(t, o.late(time.Now()))
	o.charge(time.Now().Add(-timeBurst / 2))
	require.False(t, owners.indebted())
	o.charge(time.Now().Add(-timeBurst))
	require.True(t, owners.indebted())
	require.True(t, o.late(time.Now()))
	time.Sleep(timeShare * timeBurst)
	require.False(t, owners.indebted())
	owners.purge()
	require.Len(t, owners.byID, 1, "it still owes something")
	time.Sleep(timeShare * timeBurst)
	o.used.Store(1)
	owners.purge()
	require.Len(t, owners.byID, 1, "it has a file")
	o.used.Store(0)
	owners.purge()
	require.Empty(t, owners.byID)

	// Twelve who have taken time in advance get half a processor together.
	for uid := range uint32(12) {
		add(uid).charge(time.Now().Add(-timeBurst))
	}
	require.False(t, owners.indebted())
	time.Sleep(timeShare * timeBurst / 2)
	for _, o := range owners.byID {
		o.charge(time.Now().Add(-time.Second))
		require.Equal(t, timeShare*timeBurst/2+24*time.Second, time.Until(o.granted))
	}
	require.True(t, owners.indebted())
	late := add(13)
	late.charge(time.Now().Add(-timeBurst))
	require.False(t, late.late(time.Now()), "the burst is the same, however many there are")
	late.charge(time.Now().Add(-time.Millisecond))
	require.True(t, late.late(time.Now()))

	var none *owner // root of the machine
	none.charge(time.Now().Add(-time.Hour))
	require.False(t, none.late(time.Now()))
}

// TestLimits: the memory, the files and the probes of a user in a Finder are limited together,
// and there is room again when they are forgotten.
func TestLimits(t *testing.T) {
	f := NewFinder()
	defer f.Close()
	f.Limit()
	o := &owner{id: proc.Owner{UID: 7}, all: f.owners, kinds: map[string]bool{}}
	now := time.Now()
	require.False(t, f.refuses(o, now))
	require.False(t, f.refuses(nil, now))
	o.used.Store(budget)
	require.True(t, f.refuses(o, now))
	require.Len(t, f.Skips().Unsaid(), 1)
	require.True(t, f.refuses(o, now))
	require.Empty(t, f.Skips().Unsaid(), "it is said once")
	counts := map[string]uint64{}
	f.Skips().Counts(func(reason string, n uint64) { counts[reason] = n })
	require.Equal(t, map[string]uint64{"descriptors": 2, "time": 0, "probes": 0, "mappings": 0, "fuse": 0, "unresponsive": 0}, counts)
	o.used.Store(0)
	o.granted = now.Add(time.Hour)
	require.True(t, f.refuses(o, now))

	file := &File{Probes: make([]sdt.Site, 1000)}
	o.open(file)
	require.Equal(t, descriptor(fileSize)+1000*probeSize, o.used.Load())
	room := (budget - o.used.Load()) / descriptor(kindSize)
	spent := int64(0)
	for file.Spend(fmt.Sprint(spent), false) {
		spent++
	}
	require.Equal(t, room, spent)
	require.True(t, file.Spend("0", false), "it has that already")
	require.False(t, o.affords(1<<16*probeSize, skipProbes))
	o.close(file)
	o.granted = time.Time{}
	file.Charge(time.Now().Add(-timeBurst))
	require.WithinDuration(t, now.Add(timeShare*timeBurst), o.granted, timeBurst, "the time of closing it counts")
	require.Equal(t, spent*descriptor(kindSize), o.used.Load(), "the programs remain")
	require.True(t, new(File).Spend("any", false), "root of the machine may")

	// The programs that serve one file alone are released with it, however many files there are.
	o.kinds = map[string]bool{}
	o.used.Store(0)
	for range 3 {
		version := &File{}
		o.open(version)
		for i := range 5 {
			require.True(t, version.Spend(fmt.Sprint(i), true))
			require.True(t, version.Spend(fmt.Sprint(i), true))
		}
		require.Equal(t, descriptor(fileSize)+5*descriptor(kindSize), o.used.Load())
		o.close(version)
		require.Zero(t, o.used.Load())
		require.Empty(t, o.kinds)
	}
}

// TestPaid: links count until they are closed, and there is no room for more.
func TestPaid(t *testing.T) {
	f := NewFinder()
	defer f.Close()
	f.Limit()
	file := &File{owner: &owner{all: f.owners}}
	most := int(budget / descriptor(linkSize))
	require.True(t, file.Affords(most))
	require.False(t, file.Affords(most+1))
	c := &closed{}
	links := file.Paid(c, most-1)
	require.True(t, file.Affords(1))
	require.False(t, file.Affords(2))
	require.NoError(t, links.Close())
	require.True(t, c.done.Load())
	require.True(t, file.Affords(most))

	require.True(t, new(File).Affords(2*most), "root of the machine may")
	require.NoError(t, new(File).Paid(&closed{}, 1).Close())
}

// TestScarce: a user has at most an eighth of the descriptors.
func TestScarce(t *testing.T) {
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
	for _, n := range []uint64{512, 1024} {
		few := unix.Rlimit{Cur: n, Max: limit.Max}
		require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
		require.EqualValues(t, n/8, budget/descriptor(linkSize))
		require.EqualValues(t, n/8, budget/descriptor(fileSize))
	}
}

// TestEntries: what a user's files leave in a Finder counts too: what was dismissed, what must
// not be opened, and the other names of a file.
func TestEntries(t *testing.T) {
	f := NewFinder()
	defer f.Close()
	f.Limit()
	o := &owner{id: proc.Owner{UID: 7}, all: f.owners}
	key := func(i int64) proc.File { return proc.File{Inode: uint64(i)} }
	for i := range 2 * budget / entrySize("") {
		f.enter(key(i), &entry{owner: o})
	}
	require.Len(t, f.known, int(budget/entrySize("")))
	f.Reconsider()
	require.Empty(t, f.known)
	require.Zero(t, o.used.Load())
	for range 2 {
		f.remember(key(1), stamp{}, o)
		require.Equal(t, entrySize(""), o.used.Load())
	}
	file := &File{content: &Content{}}
	f.enter(key(1), &entry{file: file, owner: o})
	f.enter(key(2), &entry{file: file, owner: o})
	require.Equal(t, 2*entrySize(""), o.used.Load())
	f.Drop(file)
	require.Empty(t, f.known)
	require.Zero(t, o.used.Load())
}
