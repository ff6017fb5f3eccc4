//go:build linux

package ring

import (
	"encoding/binary"
	"os"
	"path"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/layout"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/value"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/stretchr/testify/require"
)

// TestFillIn: the executable comes from /proc, unless the process may be another program by now.
func TestFillIn(t *testing.T) {
	const most = 60
	size := layout.TextHeader + (most+2+7)&^7
	items := []value.Item{{Name: "executable", Type: expr.Type{Kind: expr.String}, Offset: layout.EventHeader, Size: size, TextSize: most}}
	name := path.Base(proc.Executable(os.Getpid()))
	require.NotEmpty(t, name)
	for _, test := range []struct {
		pid         int
		comm        string
		executables []int
		want        string
	}{
		{os.Getpid(), proc.Comm(os.Getpid(), os.Getpid()), []int{0}, name},
		{os.Getpid(), "another", []int{0}, ""},
		{0, "", []int{0}, ""},       // it is in another PID namespace
		{1 << 22, "", []int{0}, ""}, // beyond the last PID
		{os.Getpid(), proc.Comm(os.Getpid(), os.Getpid()), nil, ""},
	} {
		e := &layout.Event{PID: uint32(test.pid), TID: uint32(test.pid), Raw: make([]byte, layout.EventHeader+size)}
		copy(e.Raw[layout.EventComm:], test.comm)
		binary.NativeEndian.PutUint64(e.Raw[layout.EventMissing:], 1)
		fillIn(e, &bpf.Trace{Items: items, Executables: test.executables})
		value := e.Value(items, 0)
		require.Equal(t, test.want, string(value.Text), test)
		require.Equal(t, test.want == "", value.Missing, test)
	}
}
