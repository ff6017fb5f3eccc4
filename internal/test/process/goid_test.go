//go:build linux && amd64

package process

import (
	"bytes"
	"debug/elf"
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
)

// goidOffset is the place of goid in runtime.g, as docs/goroutines.md says: of Go 1.25 and 1.26.
const goidOffset = 152

// TestGoroutineAtTheSite: R14 is the goroutine at the site, whatever fires, as
// docs/goroutines.md says.
func TestGoroutineAtTheSite(t *testing.T) {
	var want uint64
	_, err := fmt.Fscanf(bytes.NewReader(goroutineHeader()), "goroutine %d ", &want)
	require.NoError(t, err)

	p := newProvider(t, "goid")
	number := stapsdt.NewProbe1[int](p, "number")
	text := stapsdt.NewProbe2[string, int](p, "text")
	one, err := p.AddProbe("one", stapsdt.Int32)
	require.NoError(t, err)
	twelve, err := p.AddProbe("twelve", stapsdt.Int8, stapsdt.Int8, stapsdt.Int8, stapsdt.Int8, stapsdt.Int8, stapsdt.Int8, stapsdt.Int8, stapsdt.Int8, stapsdt.Int8, stapsdt.Int8, stapsdt.Int8, stapsdt.String)
	require.NoError(t, err)
	load(t, p)
	list := trace(t, &number.Probe, &text.Probe, one, twelve)
	register := sdt.ParseArgs(elf.EM_X86_64, "8@%r14")[0]
	for name, c := range map[string]struct {
		traced tracedProbe
		fire   func()
	}{
		"Fire":                 {list[0], func() { number.Fire(1) }},
		"Fire, a string":       {list[1], func() { text.Fire("text", 1) }},
		"FireFunc":             {list[0], func() { number.FireFunc(func() int { return 1 }) }},
		"FireFunc, a string":   {list[1], func() { text.FireFunc(func() (string, int) { return "text", 1 }) }},
		"AddProbe, 1 argument": {list[2], func() { require.NoError(t, one.Fire(1)) }},
		"AddProbe, 12 arguments": {list[3], func() {
			require.NoError(t, twelve.Fire(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, "text"))
		}},
	} {
		c.fire()
		g, err := c.traced.read(t).Arg(register)
		require.NoError(t, err)
		// SAFETY: g is this goroutine's descriptor, which the runtime never frees.
		require.Equal(t, want, *(*uint64)(unsafe.Add(*(*unsafe.Pointer)(unsafe.Pointer(&g)), goidOffset)), name)
	}
}

// goroutineHeader returns the beginning of this goroutine's stack trace.
func goroutineHeader() []byte {
	b := make([]byte, 64)
	return b[:runtime.Stack(b, false)]
}
