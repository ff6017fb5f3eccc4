package call

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestGoroutine: goroutines that live at the same time have numbers of their own, which stay
// the same on every thread.
func TestGoroutine(t *testing.T) {
	const goroutines = 100
	ids := make(chan uintptr, goroutines)
	end := make(chan bool)
	for range goroutines {
		go func() {
			id := Goroutine()
			for range 100 {
				runtime.Gosched()
				if Goroutine() != id {
					id = 0
				}
			}
			ids <- id
			<-end
		}()
	}
	seen := map[uintptr]bool{0: true}
	for range goroutines {
		id := <-ids
		require.False(t, seen[id], "%#x", id)
		seen[id] = true
	}
	close(end)
}
