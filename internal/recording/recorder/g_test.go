package recorder

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTested: the g of a release is used, and that of a version which may have another g is not.
func TestTested(t *testing.T) {
	for version, want := range map[string]bool{
		"go1.25": true, "go1.26.8": true, "go1.27rc1": true, "go1.24.1": false, "go1.28.0": false, "go1.251": false,
		"go1.26.8 X:nodwarf5": false, "go1.26.1-vendor": false, "go1.27-devel_0123abc": false, "devel +0123abc": false, "": false,
	} {
		require.Equal(t, want, tested(version), version)
	}
}

// TestGoroutine: the recorded number of a goroutine is the one in its stack trace. It is 0 if it is unknown.
func TestGoroutine(t *testing.T) {
	for range 3 {
		done := make(chan [2]uint64)
		go func() {
			var trace [64]byte
			runtime.Stack(trace[:], false)
			var number uint64
			_, _ = fmt.Sscanf(string(trace[:]), "goroutine %d ", &number)
			done <- [2]uint64{number, goroutine()}
		}()
		if numbers := <-done; usesG {
			require.Equal(t, numbers[0], numbers[1])
		} else {
			require.Zero(t, numbers[1])
		}
	}
}
