//go:build linux && (amd64 || arm64)

package symbol

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/debugfile"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// own returns where the code of this program is.
func own(t testing.TB) proc.Mapping {
	mappings, err := proc.CodeMappings(os.Getpid())
	require.NoError(t, err)
	m := find(mappings, uint64(reflect.ValueOf(TestGoTable).Pointer()))
	if m != nil {
		return *m
	}
	require.FailNow(t, "this function is nowhere")
	return proc.Mapping{}
}

// TestGoTable compares the functions of this program with what its runtime says, inlined ones
// too.
func TestGoTable(t *testing.T) {
	testenv.NeedsOptimization(t, "nothing is inlined then")
	code := own(t)
	p := NewSymbolizer(debugfile.New())
	defer p.Close()
	compared, inlined, wrappers := 0, 0, 0
	for pc := code.Start; pc < code.End; pc += 307 {
		// CallersFrames takes the function of the next address.
		if fn := runtime.FuncForPC(uintptr(pc) + 1); fn == nil || uint64(fn.Entry()) == pc+1 {
			continue
		}
		var want []string
		// The callers of an inlined function are found if something follows, here nothing that is a function.
		for frames, more := runtime.CallersFrames([]uintptr{uintptr(pc) + 1, 1}), true; more; {
			var frame runtime.Frame
			frame, more = frames.Next()
			name := strings.ReplaceAll(frame.Function, "%2e", ".")
			want = append(want, fmt.Sprint(name, " ", frame.File, ":", frame.Line))
		}
		var got []string
		for _, fn := range p.Stack(os.Getpid(), "p", []uint64{pc}, 127).Frames[0].Functions {
			got = append(got, fmt.Sprint(fn.Name, " ", fn.File, ":", fn.Line))
		}
		// Not everything in the text is a function, some assembly has no lines, and the runtime
		// does not show the name of the function whose name is the first.
		if strings.HasPrefix(want[0], " ") || strings.HasSuffix(want[0], " ?:0") {
			continue
		}
		// The runtime leaves out some functions that only call another one.
		if n := len(want); len(got) == n+1 {
			got = got[:n]
			wrappers++
		}
		require.Equal(t, want, got, "%#x", pc)
		compared++
		inlined += len(got) - 1
	}
	t.Logf("%d addresses, %d inlined functions, %d wrappers", compared, inlined, wrappers)
	assert.GreaterOrEqual(t, compared, 1000, "these are too few, or too many wrappers")
	assert.GreaterOrEqual(t, inlined, 100, "these are too few, or too many wrappers")
	assert.LessOrEqual(t, wrappers, compared/20, "these are too few, or too many wrappers")
}

// TestGoTableTop: the runtime knows the first function of a goroutine.
func TestGoTableTop(t *testing.T) {
	pcs := make([]uintptr, 64)
	var addresses []uint64
	for _, pc := range pcs[:runtime.Callers(0, pcs)] {
		addresses = append(addresses, uint64(pc))
	}
	p := NewSymbolizer(debugfile.New())
	defer p.Close()
	s := p.Stack(os.Getpid(), "p", addresses, 127)
	last := s.Frames[len(s.Frames)-1]
	assert.Equal(t, "runtime.goexit", last.Names()[0], last)
	assert.True(t, last.isTop(), last)
	assert.Equal(t, Whole, s.Cut, last)
	for depth, want := range map[int]Cut{len(addresses) - 1: CutDepth, 127: CutFrame} {
		assert.Equal(t, want, p.Stack(os.Getpid(), "p", addresses[:len(addresses)-1], depth).Cut, depth)
	}
}

// TestLibrary: of this repository, only what is between a program and a site is left out.
func TestLibrary(t *testing.T) {
	for name, want := range map[string]bool{
		"github.com/go-stapsdt/stapsdt.(*Probe4[...]).Fire": true, "github.com/go-stapsdt/stapsdt/internal/call.WithStack": true, "probeFire": true,
		"github.com/go-stapsdt/stapsdt/span.(*Span[...]).End": true, "github.com/go-stapsdt/stapsdt/internal/test/kernels.fire": false,
		"github.com/go-stapsdt/stapsdtools.f": false, "main.main": false,
		"github.com/go-stapsdt/stapsdt/instrument/httpprobe.serve.func1": true, "github.com/go-stapsdt/stapsdt/examples/http.main": false,
		"github.com/go-stapsdt/stapsdt/span_test.TestSpan": false,
	} {
		assert.Equal(t, want, isLibrary(name), name)
	}
}

func TestPerfMap(t *testing.T) {
	p := &perfMap{funcs: parsePerfMap(strings.NewReader("2000 10 Lcom/example/Shop;::order\n1000 20 old\nnonsense\n1000 10 _ZN4shop5orderEi\n" +
		"0x3000 0x8 with a space\nffffffffffffffff 2 wraps\n4000 zz x\n"))}
	for address, want := range map[uint64]string{
		0xfff: "", 0x1000: "shop::order(int)", 0x100f: "shop::order(int)", 0x1010: "", 0x2001: "Lcom/example/Shop;::order", 0x3007: "with a space", 0x3008: "",
	} {
		got := ""
		if fns := p.lookup(address); fns != nil {
			got = fns[0].Name
		}
		assert.Equal(t, want, got, address)
	}
}

// TestPerfMapOwner: a map that another user has put into /tmp, or that is not a file, is not
// read.
func TestPerfMapOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perf.map")
	require.NoError(t, os.WriteFile(path, []byte("1000 10 f\n"), 0o600))
	uid := uint32(os.Getuid())
	read := func(path string, uid uint32) int {
		left := int64(maxPerfMaps)
		p := &perfMap{path: path, total: &left}
		p.refresh(uid)
		return len(p.funcs)
	}
	assert.Equal(t, 1, read(path, uid))
	if uid != 0 { // the maps of root are those of every process
		assert.Zero(t, read(path, uid+1), "functions of another user")
	}
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(path, link))
	assert.Zero(t, read(link, uid), "functions by way of a symbolic link")
}

// TestExited: of a process that has exited before it was looked at, the addresses are shown.
func TestExited(t *testing.T) {
	s := NewSymbolizer(debugfile.New()).Stack(1<<30, "p", []uint64{0x1000, 0x2000}, 127)
	assert.True(t, s.Exited, s)
	assert.Equal(t, "0x1000\x000x2000\x00", s.Key(), s)
	assert.Equal(t, Whole, s.Cut, s)
}

// TestOtherProgram: the memory map from which the addresses are is used, and not that of the
// program that the process ran later.
func TestOtherProgram(t *testing.T) {
	p := NewSymbolizer(debugfile.New())
	defer p.Close()
	pid := os.Getpid()
	p.Look(pid)
	pc := uint64(reflect.ValueOf(TestOtherProgram).Pointer())
	entry := p.byPID[pid]
	entry.maps = append(entry.maps, []proc.Mapping{{Start: 0x1000, End: 0x2000, Executable: true}})
	p.byPID[1<<30] = entry // a process that cannot be looked at again
	s := p.Stack(1<<30, "p", []uint64{pc}, 127)
	if assert.Len(t, s.Frames, 1, s) {
		assert.True(t, strings.HasSuffix(s.Frames[0].Names()[0], ".TestOtherProgram"), s)
	}
}

// TestVDSO: the kernel's code in a process has symbols too.
func TestVDSO(t *testing.T) {
	mappings, err := proc.CodeMappings(os.Getpid())
	require.NoError(t, err)
	for i := range mappings {
		if mappings[i].Path != "[vdso]" {
			continue
		}
		left := int64(maxTables)
		m := readVDSO(os.Getpid(), &mappings[i], &left)
		for _, s := range m.read().symbols {
			if fns := m.lookup(s.start); strings.Contains(s.name, "gettime") && len(fns) == 1 && strings.Contains(fns[0].Name, "gettime") {
				return
			}
		}
		assert.Fail(t, "the vDSO has no clock_gettime")
	}
}
