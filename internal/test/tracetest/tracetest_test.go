//go:build linux

package tracetest_test

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/sdt"
)

const timeout = testenv.Patience

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

// TestNotesOfSdtHeader: the notes of a C program that uses sys/sdt.h are read as its source says.
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

// TestUprobeSeesValues: the arguments of probes of sys/sdt.h, in registers and on the stack, are decoded to what was fired.
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
		})
	}
}
