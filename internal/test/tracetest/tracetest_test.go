//go:build linux

package tracetest_test

import (
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"
)

const timeout = time.Minute

// demo compiles testdata/demo.c, and gives its path and its notes by name.
func demo(t *testing.T, flags ...string) (string, map[string]sdt.Site) {
	t.Helper()
	testenv.NeedsTool(t, "gcc", "gcc")
	_, err := os.Stat("/usr/include/sys/sdt.h")
	if err != nil {
		multiarch, _ := filepath.Glob("/usr/include/*/sys/sdt.h")
		if len(multiarch) > 0 {
			err = nil
		}
	}
	testenv.Needs(t, "sys/sdt.h (package systemtap-sdt-dev)", err)

	path := filepath.Join(t.TempDir(), "demo")
	args := append([]string{"-O1", "-Wall", "-Werror", "-o", path, "testdata/demo.c"}, flags...)
	out, err := exec.Command("gcc", args...).CombinedOutput()
	require.NoError(t, err, "%s", out)

	notes, err := sdt.ReadFile(path)
	require.NoError(t, err)
	byName := map[string]sdt.Site{}
	for _, n := range notes {
		require.Equal(t, "demo", n.Provider)
		byName[n.Name] = n
	}
	return path, byName
}

func start(t *testing.T, path string) *tracetest.Process {
	t.Helper()
	p := tracetest.Command(t, exec.Command(path))
	p.Expect("ready", timeout)
	return p
}

func attach(t *testing.T, path string, n sdt.Site, opts ...tracetest.Option) *tracetest.Uprobe {
	t.Helper()
	u, err := tracetest.AttachUprobe(path, n.Offset, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, u.Close()) })
	return u
}

func values(t *testing.T, s tracetest.Sample, n sdt.Site) []int64 {
	t.Helper()
	var v []int64
	for _, a := range n.Args {
		x, err := s.Arg(a)
		require.NoError(t, err)
		v = append(v, int64(x))
	}
	return v
}

func siteByte(t *testing.T, p *tracetest.Process, path string, n sdt.Site) byte {
	t.Helper()
	b := make([]byte, 1)
	require.NoError(t, tracetest.ReadMapped(p.PID(), path, n.Offset, b))
	return b[0]
}

func TestNotesOfSdtHeader(t *testing.T) {
	for _, flags := range [][]string{{"-pie", "-fPIE"}, {"-no-pie"}, {"-static"}} {
		t.Run(fmt.Sprint(flags), func(t *testing.T) {
			path, notes := demo(t, flags...)
			require.Contains(t, notes, "four")
			require.Contains(t, notes, "stack")
			require.Contains(t, notes, "register")

			image, err := os.ReadFile(path)
			require.NoError(t, err)
			if runtime.GOARCH == "amd64" {
				require.Equal(t, sdt.ParseArgs(elf.EM_X86_64, "-4@8(%rsp) 8@16(%rsp)"), notes["stack"].Args)
				require.Equal(t, []byte{0x90}, image[notes["four"].Offset:][:1])
				require.Equal(t, []byte{0x0f, 0x1f, 0x44, 0, 0}, image[notes["register"].Offset:][:5])
			}
			var sizes []int
			var signed []bool
			for _, a := range notes["four"].Args {
				require.NoError(t, a.Err)
				sizes = append(sizes, a.Size)
				signed = append(signed, a.Signed)
			}
			require.Equal(t, []int{1, 2, 4, 8}, sizes)
			require.Equal(t, []bool{true, false, true, false}, signed)
		})
	}
}

func TestUprobeSeesValues(t *testing.T) {
	tracetest.NeedUprobes(t)
	path, notes := demo(t)
	p := start(t, path)
	tests := []struct {
		note, order string
		want        []int64
	}{
		{"four", "four -5 65535 -70000 -1", []int64{-5, 65535, -70000, -1}},
		{"four", "four 127 1 2147483647 0x7fffffffffffffff", []int64{127, 1, 1<<31 - 1, 1<<63 - 1}},
		// What stands above an argument's size in its register or its word is not part of it.
		{"stack", "stack 0x1122334480000000 -9", []int64{-1 << 31, -9}},
		{"stack", "stack 0x1122334400000007 0x1122334455667788", []int64{7, 0x1122334455667788}},
		{"register", "register 0x11223344556680ff 3", []int64{-0x7f01, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.order, func(t *testing.T) {
			n := notes[tt.note]
			u := attach(t, path, n)
			// The five-byte nop traps once and is a call from then on, where the kernel optimises it: both are sampled.
			for range 3 {
				p.Say(tt.order)
				s, err := u.Read(timeout)
				require.NoError(t, err)
				p.Expect("done", timeout)
				require.Equal(t, p.PID(), s.PID)
				require.Equal(t, p.PID(), s.TID)
				require.Equal(t, tt.want, values(t, s, n))
				require.NotZero(t, s.IP)
				require.Equal(t, n.Offset&0xfff, s.IP&0xfff)
			}
			count, err := u.Count()
			require.NoError(t, err)
			require.EqualValues(t, 3, count)
			more, err := u.Samples()
			require.NoError(t, err)
			require.Empty(t, more)
			_, err = u.Read(time.Millisecond)
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		})
	}
}

func TestUprobeDetaches(t *testing.T) {
	tracetest.NeedUprobes(t)
	path, notes := demo(t)
	p := start(t, path)
	for _, name := range []string{"register", "stack", "four"} {
		n := notes[name]
		idle := siteByte(t, p, path, n)
		u := attach(t, path, n)
		require.NotEqual(t, idle, siteByte(t, p, path, n))
		p.Say(name)
		p.Expect("done", timeout)
		require.NoError(t, u.Close())
		require.Equal(t, idle, siteByte(t, p, path, n))
		require.NoError(t, u.Close())
		_, err := u.Read(timeout)
		require.ErrorIs(t, err, os.ErrClosed)
		count, err := u.Count()
		require.NoError(t, err)
		require.EqualValues(t, 1, count)
	}
}

func TestCountersAgree(t *testing.T) {
	tracetest.NeedUprobes(t)
	path, notes := demo(t)
	n := notes["register"]
	p := start(t, path)
	c, err := tracetest.CountUprobe(path, n.Offset)
	require.NoError(t, err)
	defer c.Close()
	// One page of ring holds a handful of samples: the others are lost, and said to be.
	u := attach(t, path, n, tracetest.WithRing(os.Getpagesize()))
	for i := range 3 {
		p.Say("loop 10000")
		p.Expect("done", timeout)
		count, err := c.Count()
		require.NoError(t, err)
		require.EqualValues(t, 10000*(i+1), count)
	}
	samples, err := u.Samples()
	require.NoError(t, err)
	require.NotEmpty(t, samples)
	count, err := u.Count()
	require.NoError(t, err)
	require.EqualValues(t, 30000, count)
	lost, err := u.Lost()
	require.NoError(t, err)
	if tracetest.KernelAtLeast(6, 0) {
		require.EqualValues(t, 30000, int(lost)+len(samples))
	}
}

func TestUprobeKeepsOrderAcrossProcessors(t *testing.T) {
	tracetest.NeedUprobes(t)
	path, notes := demo(t)
	n := notes["stack"]
	p := start(t, path)
	u := attach(t, path, n, tracetest.WithRing(4<<20))
	p.Say("hop 3000")
	samples, err := u.ReadN(3000, timeout)
	require.NoError(t, err)
	for i, s := range samples {
		require.EqualValues(t, i, values(t, s, n)[0])
	}
}

func TestUprobeOfOneThread(t *testing.T) {
	tracetest.NeedUprobes(t)
	path, notes := demo(t)
	n := notes["register"]
	traced, other := start(t, path), start(t, path)
	idle := siteByte(t, other, path, n)
	u := attach(t, path, n, tracetest.WithThread(traced.PID()))
	require.NotEqual(t, idle, siteByte(t, traced, path, n))
	require.Equal(t, idle, siteByte(t, other, path, n), "another process was patched")
	for _, p := range []*tracetest.Process{other, traced} {
		p.Say("loop 5")
		p.Expect("done", timeout)
	}
	samples, err := u.ReadN(5, timeout)
	require.NoError(t, err)
	require.Equal(t, traced.PID(), samples[4].PID)
	require.EqualValues(t, 4, values(t, samples[4], n)[0])

	traced.Hangup()
	require.NoError(t, traced.Wait(timeout))
	_, err = u.Read(timeout)
	require.ErrorIs(t, err, io.EOF)
	count, err := u.Count()
	require.NoError(t, err)
	require.EqualValues(t, 5, count)
}

func TestUprobeErrors(t *testing.T) {
	tracetest.NeedUprobes(t)
	_, err := tracetest.AttachUprobe("/no/such/file", 0)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = tracetest.CountUprobe("a\x00b", 0)
	require.Error(t, err)
	for _, o := range []tracetest.Option{
		tracetest.WithStack(0), tracetest.WithStack(12), tracetest.WithStack(1 << 20), tracetest.WithStack(-8),
		tracetest.WithRing(0), tracetest.WithRing(os.Getpagesize() + 1), tracetest.WithRing(3 * os.Getpagesize()),
	} {
		_, err := tracetest.AttachUprobe("/bin/true", 0, o)
		require.Error(t, err)
		require.False(t, errors.Is(err, os.ErrNotExist))
	}
}

func TestBpftraceSeesValues(t *testing.T) {
	path, notes := demo(t)
	p := start(t, path)
	idle := map[string]byte{}
	for name, n := range notes {
		idle[name] = siteByte(t, p, path, n)
	}
	// With -p, and with no path: a path beside -p makes later versions attach twice.
	tr := tracetest.Bpftrace(t, `
		usdt:*:demo:four { printf("four %d %d %d %d\n", arg0, arg1, arg2, arg3); }
		usdt:*:demo:stack { printf("stack %d %d\n", arg0, arg1); @stack = count(); }
		usdt:*:demo:register { printf("register %d %d\n", arg0, arg1); @register = count(); }`,
		"-p", fmt.Sprint(p.PID()))
	for name, n := range notes {
		require.NotEqual(t, idle[name], siteByte(t, p, path, n), "bpftrace was not attached when it said so")
	}
	for _, order := range []string{"four -5 65535 -70000 -1", "stack 0x1122334480000000 -9", "register 0x11223344556680ff 3"} {
		p.Say(order)
		p.Expect("done", timeout)
	}
	require.ElementsMatch(t,
		[]string{"four -5 65535 -70000 -1", "stack -2147483648 -9", "register -32513 3"}, tr.WaitLines(3, timeout))
	tr.WaitLine("four -5", timeout)
	p.Say("loop 1000")
	p.Expect("done", timeout)
	tr.WaitLine("register 999 0", timeout)
	out := tr.Stop()
	require.Contains(t, out, "@register: 1001\n")
	require.Contains(t, out, "@stack: 1")
	require.Equal(t, out, tr.Stop())
	for name, n := range notes {
		require.Equal(t, idle[name], siteByte(t, p, path, n), "bpftrace was attached when it had stopped")
	}
}

func TestBpftraceOfPath(t *testing.T) {
	path, _ := demo(t)
	tr := tracetest.Bpftrace(t, fmt.Sprintf(`BEGIN { @begun = 1; } usdt:%s:demo:stack { printf("%%d\n", arg1); exit(); }`, path))
	p := start(t, path)
	p.Say("stack 1 2")
	require.Equal(t, []string{"2"}, tr.WaitLines(1, timeout)[:1])
	require.NoError(t, tr.Wait(timeout))
	require.Contains(t, tr.Stop(), "@begun: 1")
}
