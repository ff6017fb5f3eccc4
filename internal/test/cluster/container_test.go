//go:build linux && (amd64 || arm64)

package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"golang.org/x/sys/unix"
)

// user is the user and the group of all containers.
const user = 65532

// container describes the first process of a container.
type container struct {
	Hostname string
	Image    string // the directory that becomes its root
	Mounts   []mount
	Group    testenv.MemoryGroup
	Env      []string
	Args     []string
}

// mount is a directory of the machine in a container, which is read-only unless it is Writable.
type mount struct {
	From, To string
	Writable bool
}

// newImage makes a directory with what the image of a program has, and with the directories at which a container has mounts.
func newImage(directory, program, as string, mounts []mount) error {
	made := []string{"proc", "dev", "sys/fs/cgroup/memory"}
	for _, m := range mounts {
		made = append(made, m.To)
	}
	for _, name := range made {
		if err := os.MkdirAll(filepath.Join(directory, name), 0o755); err != nil {
			return err
		}
	}
	if err := os.Link(program, filepath.Join(directory, as)); err != nil {
		return err
	}
	links := map[string]string{"dev/fd": "/proc/self/fd"}
	for _, name := range []string{"lib", "lib64"} { // which an image with libraries has
		if to, err := os.Readlink("/" + name); err == nil {
			links[name] = to
		}
	}
	for name, to := range links {
		if err := os.Symlink(to, filepath.Join(directory, name)); err != nil {
			return err
		}
	}
	return nil
}

// started is what a container prints before its program runs.
const started = "started"

// running is a container that was started.
type running struct {
	*tracetest.Process
	group *testenv.MemoryGroup
	pid   int // of its first process
}

// start starts a container, in a PID namespace of its own or, if target is not nil, in that of another one.
func (c *container) start(t testing.TB, target *running) *running {
	t.Helper()
	said, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	flags := uintptr(unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC)
	enter := func(cmd *exec.Cmd) {
		if target == nil {
			flags |= unix.CLONE_NEWPID
		} else {
			inside := fmt.Sprintf("--pid=/proc/%d/ns/pid", target.pid)
			cmd.Args = append([]string{"nsenter", inside, "--", cmd.Path}, cmd.Args[1:]...)
			cmd.Path = testenv.NeedsTool(t, "nsenter", "util-linux")
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	}
	p := tracetest.Child(t, "container", tracetest.WithArgs(string(said)), enter)
	p.Expect(started, testenv.Patience)
	r := &running{Process: p, group: &c.Group, pid: p.PID()}
	if target != nil { // nsenter has a child in the namespace
		children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", r.pid))
		if err == nil {
			r.pid, err = strconv.Atoi(strings.TrimSpace(string(children)))
		}
		if err != nil {
			t.Fatalf("%s has no child: %v", p.Dump(), err)
		}
		t.Cleanup(func() { // before nsenter, so that this reaps it: the machine's init may take a second
			if !r.Ended() {
				_ = unix.Kill(r.pid, unix.SIGKILL)
				_ = r.Wait(testenv.Patience)
			}
		})
	}
	return r
}

// becomeContainer makes this process, which has namespaces of its own, the first process of a container.
func becomeContainer(args []string) {
	runtime.LockOSThread() // the parent has unshared all, and only the control group's namespace is that of a thread
	var c container
	err := json.Unmarshal([]byte(args[0]), &c)
	if err == nil {
		err = c.enter()
	}
	if err == nil {
		fmt.Println(started)
		err = unix.Exec(c.Args[0], c.Args, c.Env)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func (c *container) enter() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("leave the machine's mounts: %w", err)
	}
	if err := bind(mount{From: c.Image}, c.Image); err != nil {
		return err
	}
	for _, m := range c.Mounts {
		if err := bind(m, filepath.Join(c.Image, m.To)); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", filepath.Join(c.Image, "proc"), "proc", 0, ""); err != nil {
		return fmt.Errorf("mount proc: %w", err)
	}
	// What this program has in memory stays charged to the group that it leaves.
	if err := os.WriteFile(c.Group.Procs(), []byte("0"), 0); err != nil {
		return err
	}
	if err := c.mountGroup(); err != nil {
		return err
	}
	if err := c.changeRoot(); err != nil {
		return err
	}
	return becomeUser()
}

// mountGroup shows the container its own control group as the root.
func (c *container) mountGroup() error {
	at := filepath.Join(c.Image, "sys/fs/cgroup")
	if !c.Group.Unified {
		return bind(mount{From: c.Group.Directory}, filepath.Join(at, "memory"))
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	return os.NewSyscallError("mount", unix.Mount("cgroup", at, "cgroup2", unix.MS_RDONLY, ""))
}

func (c *container) changeRoot() error {
	if err := unix.Chdir(c.Image); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil { // the old root is above the new one, and goes
		return os.NewSyscallError("pivot_root", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	return unix.Sethostname([]byte(c.Hostname))
}

// becomeUser gives up all rights. The kernel has the same opinion of this process as of one of a pod that requests little memory.
func becomeUser() error {
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("985"), 0); err != nil {
		return err
	}
	for _, become := range []func() error{
		func() error { return syscall.Setgroups(nil) },
		func() error { return syscall.Setgid(user) },
		func() error { return syscall.Setuid(user) },
		func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) },
		// Another user has forgotten it.
		func() error { return unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0) },
	} {
		if err := become(); err != nil {
			return fmt.Errorf("become the user %d: %w", user, err)
		}
	}
	return nil
}

func bind(m mount, to string) error {
	if err := unix.Mount(m.From, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s to %s: %w", m.From, to, err)
	}
	if m.Writable {
		return nil
	}
	return os.NewSyscallError("remount", unix.Mount("", to, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
}

// command returns a command that runs in the container, as kubectl exec runs it.
func (r *running) command(words []string) *exec.Cmd {
	const script = `echo 0 >"$0" && exec nsenter --target "$@"`
	at := []string{strconv.Itoa(r.pid), "--pid", "--mount", "--uts", "--ipc", "--root", "--wd"}
	if r.group.Unified {
		at = append(at, "--cgroup")
	}
	at = append(at, "--setgid", strconv.Itoa(user), "--setuid", strconv.Itoa(user), "--")
	c := exec.Command("sh", slices.Concat([]string{"-c", script, r.group.Procs()}, at, words)...)
	c.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	return c
}
