//go:build linux

package live

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/internal/wire"

	"github.com/stretchr/testify/require"
)

// TestPatterns: however many specs there are, a program takes what selects their probes.
func TestPatterns(t *testing.T) {
	specs := func(n int, format string) (all []spec.Spec) {
		for i := range n {
			all = append(all, querytest.Spec(fmt.Sprintf(format, i)))
		}
		return all
	}
	require.Equal(t, []wire.Pattern{{Provider: "p", Probe: "a"}, {Provider: "p", Probe: "b"}}, patterns(spec.All(querytest.Specs("p:a", "p:b", "p:a"))))
	require.Len(t, patterns(specs(wire.MaxPatterns, "p:probe%d")), wire.MaxPatterns)
	require.Equal(t, []wire.Pattern{{Provider: "p", Probe: "*"}}, patterns(specs(300, "p:probe%d")))
	require.Equal(t, []wire.Pattern{{Provider: "p", Probe: "*"}}, patterns(specs(200, "p:"+strings.Repeat("x", 500)+"%d")), "a message is too small")
	require.Equal(t, []wire.Pattern{{Provider: "*", Probe: "*"}}, patterns(specs(300, "p%d:probe")))
}
