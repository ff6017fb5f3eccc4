//go:build linux

package source

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/proc"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/rights"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/live"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/socket"

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
		require.Equal(t, c.lacks, errors.Is(Refuse(c.err, &query.Config{Kernel: "stack"}), live.ErrKernel), "%v", c.err)
		require.Equal(t, c.err, Refuse(c.err, &query.Config{Specs: querytest.Specs("a:b")}))
		for _, config := range []query.Config{
			{Specs: querytest.Specs("a:b", "go:main.f")}, {Specs: querytest.Specs("/x:a:b")}, {Await: true}, {Budget: 0.1},
		} {
			require.Equal(t, c.lacks, errors.Is(Refuse(c.err, &config), live.ErrKernel), "%v, %+v", c.err, config)
		}
	}
}

// TestNoSpecs: a missing SPEC is an error by each route, before anything is asked.
func TestNoSpecs(t *testing.T) {
	for _, via := range []string{"", query.ViaSocket} {
		c := &query.Config{Target: query.Target{PIDs: []int{1}}, Via: via}
		_, err := Choose(&console.Console{}, c, events.Options{})
		require.ErrorIs(t, err, query.ErrUsage)
		require.ErrorContains(t, err, "no probes: give")
	}
}

// TestHasMore: if sockets lack something, the kernel delivers the events if it can. If it refuses, this
// is the answer if a process that the user has named does not listen.
func TestHasMore(t *testing.T) {
	refused := rights.New("attaching", unix.EPERM, rights.BPF)
	for _, c := range []struct {
		err                   error
		able, refused, absent bool // for a kernel that can, refuses, and is not there
	}{
		{live.ErrKernel, true, false, false},
		{query.ErrNothing, true, false, false},
		{live.PartError{}, true, true, false},
		{fmt.Errorf("process 7: %w", socket.ErrNone), true, true, true},
		{fmt.Errorf("process 7: %w", proc.ErrNoProcess), true, true, true},
	} {
		got := []bool{hasMore(c.err, nil), hasMore(c.err, refused), hasMore(c.err, unix.ENOSYS)}
		require.Equal(t, []bool{c.able, c.refused, c.absent}, got, "%#v", c.err)
	}
}
