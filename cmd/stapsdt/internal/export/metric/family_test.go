//go:build linux

package metric

import (
	"fmt"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/export/expose"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/cgroup"

	"github.com/stretchr/testify/assert"
)

// TestFull: one user alone can have all series of open operations, and leaves as many to others.
func TestFull(t *testing.T) {
	m := &Traced{}
	m.Series = 8
	c := &collection{Traced: m, series: map[string]*expose.Series{}, shown: map[string]bool{}, owned: map[uint64]int{}}
	begin := func(owner uint64, n int) (series int) {
		for i := range n {
			labels := []string{fmt.Sprint(owner, i)}
			if c.full(owner, labels, cgroup.Container{}) {
				labels = nil
			} else {
				series++
			}
			c.at(labels, cgroup.Container{})
		}
		return series
	}
	assert.Equal(t, 8, begin(1, 1000))
	assert.Equal(t, 3, begin(2, 3))
	assert.Equal(t, 2, begin(3, 1000))
	assert.False(t, c.full(3, []string{"1 7"}, cgroup.Container{}), "others have the series already")
}
