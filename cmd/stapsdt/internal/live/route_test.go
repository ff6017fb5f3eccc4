//go:build linux

package live

import (
	"errors"
	"fmt"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/rights"

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
