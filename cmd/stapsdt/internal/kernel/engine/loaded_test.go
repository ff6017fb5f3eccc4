//go:build linux

package engine

import (
	"fmt"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"

	"github.com/stretchr/testify/require"
)

// TestLoaded: a process that has loaded probes goes on after they are attached to, also if attaching
// fails. Processes that are not selected go on too, and are not looked at.
func TestLoaded(t *testing.T) {
	w := &world{mapped: map[int][]*target.File{}, foreign: map[int]bool{0: true, 2: true}}
	e := newEngine(t, w, Options{})
	subscription := e.add(subscribe(t, "app:a"))
	e.running = true
	w.mapped[1] = []*target.File{newFile("/app", "a")}
	w.mapped[2] = []*target.File{newFile("/other", "a")}
	w.waiting = []int{0, 2, 1, 7}
	require.NoError(t, e.attachLoaded())
	require.Equal(t, 1, subscription.Sites())
	require.Equal(t, []int{0, 2, 1, 7}, w.went)

	w.mapped[3] = []*target.File{newFile("/more", "a")}
	w.waiting, w.attachErr = []int{3}, errRefused
	require.ErrorIs(t, e.attachLoaded(), errRefused)
	require.Equal(t, []int{0, 2, 1, 7, 3}, w.went)
}

// TestLate: a process that has gone on before its probes were attached to is reported, also if it
// has ended since, and also if attaching takes so long that the kernel is not waited for. One that
// is not selected, or has no such probe, is not.
func TestLate(t *testing.T) {
	w := &world{mapped: map[int][]*target.File{}, foreign: map[int]bool{0: true, 2: true}}
	e := newEngine(t, w, Options{})
	e.add(subscribe(t, "app:a"))
	e.running = true
	w.mapped[1] = []*target.File{newFile("/app", "a")}
	w.mapped[2], w.mapped[3], w.mapped[4] = w.mapped[1], w.mapped[1], []*target.File{newFile("/other", "b")}
	w.waiting, w.late = []int{0, 1, 2, 3, 4, 7}, []int{0, 2, 3, 4, 7}
	require.NoError(t, e.attachLoaded())
	const want = "process %d went on before it was attached to: its first events may be missing, because it waits for at most 1s"
	require.Equal(t, []string{fmt.Sprintf(want, 3), fmt.Sprintf(want, 7)}, w.problems)

	w.mapped[5], w.waiting, w.late, w.problems = []*target.File{newFile("/slow", "a")}, []int{5}, nil, nil
	w.attachErr = stall.ErrLate
	require.NoError(t, e.attachLoaded())
	require.Equal(t, []string{fmt.Sprintf(want, 5)}, w.problems)
}
