//go:build linux

// Package longest measures how long a fire waits for the file of its recording, on several file
// systems, while another program writes to the same one:
//
//	go test ./bench/longest -run - -bench . -benchtime 1x
//
// as root, in internal/test.
package longest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/proberec"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const (
	// duration is how long each measurement takes.
	duration = 20 * time.Second
	// recordingBytes is the size of the recording. The fires replace it about once a second.
	recordingBytes = 8 << 20
	// batch is how many fires there are before a pause of a tenth of a millisecond: with a real-time
	// priority, the program must not use the whole processor.
	batch = 100
)

// prioritized is set in the environment of a test binary that has a real-time priority.
const prioritized = "STAPSDT_TEST_PRIORITIZED"

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() != "" && os.Geteuid() == 0 && os.Getenv(prioritized) == "" {
		// All threads need it, those of Go's scheduler too: a fire must wait for the kernel, and not for other programs.
		os.Setenv(prioritized, "1")
		self, err := os.Executable()
		if err == nil {
			err = syscall.Exec("/usr/bin/chrt", append([]string{"chrt", "--fifo", "1", self}, os.Args[1:]...), os.Environ())
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// BenchmarkLongestFire prints the longest fire, beside the longest of a recording in memory.
func BenchmarkLongestFire(b *testing.B) {
	testenv.NeedsRoot(b)
	for _, kind := range []string{"memory", "tmpfs", "ext4", "xfs"} {
		for _, busy := range []bool{false, true} {
			name := kind
			if busy {
				name += "/beside a writer"
			}
			b.Run(name, func(b *testing.B) {
				b.Setenv("STAPSDT_DIR", b.TempDir())
				p := stapsdt.NewProvider("longest")
				defer p.Close()
				dir := b.TempDir()
				var r *proberec.Recorder
				if kind == "memory" {
					r = proberec.New(recordingBytes, p)
				} else {
					dir = mount(b, kind)
					var err error
					r, err = proberec.Create(filepath.Join(dir, "longest.rec"), recordingBytes, p)
					require.NoError(b, err)
				}
				defer func() { require.NoError(b, r.Close()) }()
				if busy {
					startWriter(b, dir)
				}
				for range b.N {
					measure(b, r, p)
				}
			})
		}
	}
}

// mount makes a file system in a file, or tmpfs, and mounts it.
func mount(b *testing.B, kind string) (dir string) {
	b.Helper()
	dir = b.TempDir()
	args := []string{"-t", "tmpfs", "none", dir}
	if kind != "tmpfs" {
		file := filepath.Join(b.TempDir(), "image")
		require.NoError(b, os.WriteFile(file, nil, 0o600))
		require.NoError(b, os.Truncate(file, 512<<20))
		run(b, testenv.NeedsTool(b, "mkfs."+kind, map[string]string{"ext4": "e2fsprogs", "xfs": "xfsprogs"}[kind]), "-q", file)
		args = []string{"-o", "loop", file, dir}
	}
	run(b, testenv.NeedsTool(b, "mount", "mount"), args...)
	b.Cleanup(func() { run(b, "umount", dir) })
	return dir
}

func run(b *testing.B, name string, args ...string) {
	b.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(b, err, "%s %v\n%s", name, args, out)
}

// startWriter starts a program, without that priority, that keeps writing a file of 64 MB in a directory, and having the kernel write
// the whole file system.
func startWriter(b *testing.B, dir string) {
	b.Helper()
	cmd := exec.Command("chrt", "--other", "0", "sh", "-c", "while dd if=/dev/zero of=busy bs=1M count=64 conv=notrunc status=none && sync -f busy; do :; done")
	cmd.Dir, cmd.Stderr, cmd.SysProcAttr = dir, os.Stderr, &syscall.SysProcAttr{Setpgid: true}
	require.NoError(b, cmd.Start())
	b.Cleanup(func() {
		require.NoError(b, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
		require.ErrorContains(b, cmd.Wait(), "killed", "it has ended")
		require.Eventually(b, func() bool { return syscall.Kill(-cmd.Process.Pid, 0) != nil }, testenv.Patience, time.Millisecond, "its dd has not ended")
	})
}

// measure fires for the duration and reports the longest fire, how many fires took more than a
// hundred microseconds, and a mean fire.
func measure(b *testing.B, r *proberec.Recorder, p *stapsdt.Provider) {
	probe := stapsdt.NewProbe2[int64, string](p, fmt.Sprintf("event%d", len(p.Probes())), "number", "text")
	r.Start()
	defer r.Stop()
	var longest, total time.Duration
	var fires, long int64
	for start := time.Now(); time.Since(start) < duration; {
		for range batch {
			before := time.Now()
			probe.Fire(fires, "0123456789abcdef")
			took := time.Since(before)
			fires++
			total += took
			longest = max(longest, took)
			if took > 100*time.Microsecond {
				long++
			}
		}
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 100_000}, nil)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(longest.Microseconds()), "longest-µs")
	b.ReportMetric(float64(long), ">100µs")
	b.ReportMetric(float64(fires), "fires")
	b.ReportMetric(float64(total.Nanoseconds())/float64(fires), "mean-ns")
}
