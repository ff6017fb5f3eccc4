//go:build linux

package rule

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestManyGroups: more control groups than there is room for are a problem that is counted and reported, and as many as there is room for
// are selected. Groups that are gone make room.
func TestManyGroups(t *testing.T) {
	testenv.NeedsRoot(t)
	set, err := bpf.NewCgroups()
	require.NoError(t, err)
	t.Cleanup(func() { set.Close() })
	room := int(set.MaxEntries())
	now := map[uint64]string{0: "/user.slice"}
	for i := range room + 1 {
		now[uint64(i+1)] = fmt.Sprintf("/system.slice/%d/%d.service", i%7, i)
	}
	selected := func() (n int) {
		var id uint64
		var value uint8
		for all := set.Iterate(); all.Next(&id, &value); n++ {
			assert.NotZero(t, id, "another group")
		}
		return n
	}
	var warnings bytes.Buffer
	b := &Base{Host: &Host{Complaints: NewComplaints(&console.Console{Err: &warnings})}, Env: &bpf.Env{Cgroups: set}, cgroups: "/system.slice/*"}
	b.Regroup(now)
	assert.Equal(t, uint64(1), b.Problems.Load())
	assert.Contains(t, warnings.String(), `too many control groups match "/system.slice/*"`)
	assert.Equal(t, room, selected())
	delete(now, 1)
	delete(now, 2)
	b.Regroup(now)
	assert.Equal(t, uint64(1), b.Problems.Load())
	assert.Equal(t, room-1, selected())
}
