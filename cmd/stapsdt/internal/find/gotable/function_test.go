package gotable

import (
	"bytes"
	"debug/elf"
	"errors"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// generic is instantiated once.
//
//go:noinline
func generic[T any](v T) T { return v }

var last string

// small is inlined in two functions.
func small(n int) int {
	last = strconv.Itoa(n)
	return len(last)
}

//go:noinline
func caller(n int) int { return small(n) + small(n+1) }

//go:noinline
func otherCaller(n int) int { return small(n) }

// release returns the minor number of the release that has built this program.
func release(t testing.TB) int {
	_, minor, _ := strings.Cut(runtime.Version(), ".")
	minor, _, _ = strings.Cut(minor, ".")
	n, err := strconv.Atoi(minor)
	require.NoError(t, err, runtime.Version())
	return n
}

// TestFunctions: the names are those of the symbol table, and what is assembly or a wrapper is known.
func TestFunctions(t *testing.T) {
	_, _, _ = generic(1), caller(1), otherCaller(1)
	table := own(t)
	file, err := elf.Open("/proc/self/exe")
	require.NoError(t, err)
	defer file.Close()
	named := map[string]Function{}
	last := uint64(0)
	_ = table.Functions(release(t), nil, func(fn Function) bool {
		assert.GreaterOrEqual(t, fn.Entry, last)
		last = fn.Entry
		if old, ok := named[fn.Name]; !ok || old.Wrapper {
			named[fn.Name] = fn
		}
		return true
	})
	const here = "github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/gotable."
	require.Contains(t, named, here+"generic[go.shape.int]")
	assert.True(t, named["runtime.memmove"].Assembly)
	assert.False(t, named[here+"caller"].Assembly || named[here+"caller"].Wrapper)
	assert.True(t, named["errors.(*errorString).Error"].Entry > 0)
	fn := named[here+"caller"]
	path, line := table.Line(&fn)
	assert.True(t, strings.HasSuffix(path, "gotable/function_test.go") && line > 20, "%s:%d", path, line)
	symbols, err := file.Symbols()
	if err != nil {
		return // go test has stripped it
	}
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, here) && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			assert.Equal(t, s.Value, named[s.Name].Entry, s.Name)
		}
	}
}

// TestInlined: the functions that contain the code of another one.
func TestInlined(t *testing.T) {
	testenv.NeedsOptimization(t, "nothing is inlined then")
	_, _ = caller(1), otherCaller(1)
	callers := map[string]int{}
	table := own(t)
	names, err := table.Names(func(name []byte) bool { return bytes.HasSuffix(name, []byte("/gotable.small")) })
	require.NoError(t, err)
	calls, err := table.Inlined(names)
	require.NoError(t, err)
	for _, c := range calls {
		require.True(t, strings.HasSuffix(table.Name(c.Callee), "/gotable.small"), table.Name(c.Callee))
		caller := table.Name(c.Caller)
		callers[caller[strings.LastIndexByte(caller, '.')+1:]]++
	}
	assert.Equal(t, map[string]int{"caller": 1, "otherCaller": 1}, callers)
}

// TestTypeName compares the names of types with those of package reflect.
func TestTypeName(t *testing.T) {
	table := own(t)
	image := uint64(reflect.ValueOf(otherCaller).Pointer())
	_ = table.Functions(release(t), nil, func(fn Function) bool {
		if strings.HasSuffix(fn.Name, "/gotable.otherCaller") {
			image -= fn.Entry
		}
		return true
	})
	for _, v := range []any{1, "text", errors.New("an error"), &Function{}, struct{ A int }{}, []string{}, map[string]Frame{}} {
		// SAFETY: an interface begins with the address of its type, which is a constant of the program.
		address := *(*uint64)(unsafe.Pointer(&v))
		name, err := table.TypeName(address - image)
		assert.NoError(t, err)
		assert.Equal(t, reflect.TypeOf(v).String(), name)
	}
	for _, wrong := range []uint64{0, 1 << 60} {
		_, err := table.TypeName(wrong)
		assert.Error(t, err)
	}
}
