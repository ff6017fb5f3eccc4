//go:build linux

package live

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"

	"github.com/stretchr/testify/require"
)

// TestRequest: the memory that is requested of each program depends on their number, and in a pod on the limit and on what others have.
func TestRequest(t *testing.T) {
	defer SetRingLimit(0)
	const kB, MB = 1 << 10, 1 << 20
	for _, c := range []struct {
		limit int64
		taken []int // of programs that are watched
		left  int
		want  uint64
	}{
		{0, nil, 1, 32 * MB},
		{0, nil, 16, 16 * MB},
		{0, nil, 10000, 512 * kB},
		{128 * MB, nil, 1, 32 * MB},
		{16 * MB, nil, 1, 8 * MB},
		{16 * MB, nil, 3, 4 * MB},
		{16 * MB, []int{8 * MB}, 1, 4 * MB},
		{16 * MB, []int{8 * MB, 4 * MB}, 1, 2 * MB},
		{16 * MB, []int{8 * MB, 9 * MB}, 1, 256 * kB},
		{1 * MB, nil, 1, 512 * kB},
	} {
		SetRingLimit(c.limit)
		f := &Feed{programs: map[socket.Key]*program{}}
		for i, size := range append(c.taken, make([]int, c.left)...) {
			f.programs[(&socket.Process{PID: i + 1}).Key()] = &program{size: size}
		}
		require.Equal(t, c.want, f.request().Bytes, c)
	}
}
