//go:build linux && (amd64 || arm64)

package bpf

import (
	"os"
	"path"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/stretchr/testify/require"
)

// TestPattern: the kernel finds the executables that a rule selects, as path.Match does.
func TestPattern(t *testing.T) {
	m := newMachine(t)
	names := []string{"shop", "shop2", "workshop", "s", "a-shop-b", "shopping-cart-service-with-a-long-name", ""}
	for _, pattern := range []string{"shop", "shop*", "*shop", "*shop*", "*-name", "*", "", "shopping-cart-service-with-a-long-name"} {
		for _, name := range names {
			want, err := path.Match(pattern, name)
			require.NoError(t, err)
			require.Equal(t, want || pattern == "", m.selects(&Env{Executable: NewPattern(pattern)}, name), "%q and %q", pattern, name)
		}
	}
	b := newBuilder(&Env{Executable: NewPattern("*a text with more than 16 bytes")}, sample())
	b.ofExecutable()
	require.ErrorContains(t, b.err, "at most 16 can be compared")
}

// TestUser: the kernel finds the user that a rule selects.
func TestUser(t *testing.T) {
	m := newMachine(t)
	for _, uid := range []uint32{0, 1, 65534, 1 << 31, 1<<32 - 1} {
		require.Equal(t, int(uid) == os.Getuid(), m.selects(&Env{User: &uid}, ""), uid)
	}
}

// selects reports whether a program selects what this thread fires, if its executable has that
// name.
func (m *machine) selects(env *Env, executable string) bool {
	result := func(env *Env, value int64, name string) bool {
		b := newBuilder(env, sample())
		b.begin()
		b.putText(origin{kind: fromExecutable}, []byte(name+"\x00"))
		b.ofExecutable()
		b.constant(asm.R0, value)
		bits, _ := m.finish(b, name)
		return bits == 1
	}
	result(&Env{}, 0, "")
	return result(env, 1, executable)
}
