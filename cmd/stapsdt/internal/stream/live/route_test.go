//go:build linux

package live

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/wire"

	"github.com/cilium/ebpf"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestLacks: rights that are missing and a kernel without BPF are one to all commands.
func TestLacks(t *testing.T) {
	for _, c := range []struct {
		err             error
		lacks, replaces bool
	}{
		{nil, false, false},
		{errors.New("the rules are wrong"), false, false},
		{fmt.Errorf("run: %w", rights.New("attaching", unix.EPERM, rights.BPF)), true, rights.None()},
		{fmt.Errorf("detect support for bpf_link_uprobe_multi: %w", unix.ENOSYS), true, true},
		{fmt.Errorf("load: %w", ebpf.ErrNotSupported), true, true},
	} {
		require.Equal(t, c.lacks, lacks(c.err), "%v", c.err)
		require.Equal(t, c.replaces, Replaces(c.err), "%v", c.err)
		require.Equal(t, c.lacks, errors.Is(Refuse(c.err, "stack"), ErrKernel), "%v", c.err)
		require.Equal(t, c.err, Refuse(c.err, ""))
	}
}

// TestNoSpecs: a missing SPEC is an error by each route, before anything is asked.
func TestNoSpecs(t *testing.T) {
	for _, via := range []string{"", query.ViaSocket} {
		c := &query.Config{Target: query.Target{PIDs: []int{1}}, Via: via}
		_, err := Choose(&console.Console{}, c, replay.Needs{})
		require.ErrorIs(t, err, console.ErrUsage)
		require.ErrorContains(t, err, "no probes: give")
	}
}

// TestPatterns: however many specs there are, a program takes what selects their probes.
func TestPatterns(t *testing.T) {
	specs := func(n int, format string) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf(format, i))
		}
		return all
	}
	require.Equal(t, []wire.Pattern{{Provider: "p", Probe: "a"}, {Provider: "p", Probe: "b"}}, patterns([]string{"p:a", "p:b", "p:a"}))
	require.Len(t, patterns(specs(wire.MaxPatterns, "p:probe%d")), wire.MaxPatterns)
	require.Equal(t, []wire.Pattern{{Provider: "p", Probe: "*"}}, patterns(specs(300, "p:probe%d")))
	require.Equal(t, []wire.Pattern{{Provider: "p", Probe: "*"}}, patterns(specs(200, "p:"+strings.Repeat("x", 500)+"%d")), "a message is too small")
	require.Equal(t, []wire.Pattern{{Provider: "*", Probe: "*"}}, patterns(specs(300, "p%d:probe")))
}
