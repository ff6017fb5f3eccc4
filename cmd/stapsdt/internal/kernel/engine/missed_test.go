//go:build linux

package engine

import (
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/target"

	"github.com/stretchr/testify/require"
)

// TestMissed: a process that has ended before its probes were attached to is counted, if its image has the provider's name or its
// file could still be read. One that ends later is not.
func TestMissed(t *testing.T) {
	w := &world{mapped: map[int][]*target.File{1: {newFile("/app", "a")}}}
	e := newEngine(t, w, Options{Daemon: true})
	app, other := e.add(subscribe(t, "app:a")), e.add(subscribe(t, "other:a"))
	e.watch()
	look := func() {
		t.Helper()
		_, err := e.look()
		require.NoError(t, err)
	}
	look()
	const hash = "-501c328d57297a273d30761ceb41b691.so"
	w.pending = []int{2, 3, 4, 5}
	w.images = map[int]string{2: "/probes/app" + hash, 3: "/memfd:app (deleted)", 4: "/probes/third" + hash}
	look()
	require.EqualValues(t, 2, app.Missed())
	require.Zero(t, other.Missed())
	require.EqualValues(t, 4, e.Missed(), "it is not known whether those had probes")

	shared := newFile("/shared", "a")
	shared.ID.Inode = 1 // as the mappings of images
	w.pending, w.mapped[7] = []int{7}, []*target.File{shared}
	look()
	w.pending, w.images = []int{8}, map[int]string{8: "/probes/app" + hash}
	look()
	require.EqualValues(t, 2, app.Missed(), "its image had been attached to")

	late := newFile("/late", "a")
	w.images = nil
	w.pending, w.mapped[6], w.dying = []int{6}, []*target.File{late}, map[int]bool{6: true}
	look()
	require.EqualValues(t, 3, app.Missed(), "it ended while it was attached to")
	w.pending = []int{6}
	look()
	require.EqualValues(t, 3, app.Missed(), "its file had been attached to")
}

// TestReached: a process that had ended before its probes were attached to is not reached, and one that
// goes on, or maps a file that is attached to, is.
func TestReached(t *testing.T) {
	for name, c := range map[string]struct {
		dying, later, reached bool
	}{"alive": {reached: true}, "ended": {dying: true}, "a later one": {dying: true, later: true, reached: true}} {
		t.Run(name, func(t *testing.T) {
			file := newFile("/app", "a")
			file.ID.Inode = 1 // as the mappings of images
			w := &world{mapped: map[int][]*target.File{1: {file}}, dying: map[int]bool{1: c.dying}}
			used := map[int]bool{}
			e := newEngine(t, w, Options{Used: func(pid int) { used[pid] = true }})
			app, other := e.add(subscribe(t, "app:a")), e.add(subscribe(t, "other:a"))
			e.running = true
			require.NoError(t, e.scan())
			require.True(t, app.Attached())
			require.Equal(t, map[int]bool{1: true}, used)
			if c.later {
				w.pending, w.images = []int{2}, map[int]string{2: "/app"}
				_, err := e.look()
				require.NoError(t, err)
				require.True(t, used[2])
			}
			require.Equal(t, c.reached, app.Reached())
			require.False(t, other.Reached())
		})
	}
}

// TestImageProvider: the name of an image has its provider.
func TestImageProvider(t *testing.T) {
	const hash = "-501c328d57297a273d30761ceb41b691"
	for name, want := range map[string]string{
		"/tmp/stapsdt-1001/shop" + hash + ".so": "shop", "/probes/a-b" + hash + ".so": "a-b", "/p/x" + hash + ".so (deleted)": "x",
		"/memfd:hello (deleted)": "hello", "/memfd:runc_cloned:/proc/self/exe (deleted)": "", "/lib/libc.so": "", "/lib/libc-2.36.so": "",
		"/p/" + hash + ".so": "", "/p/x" + hash: "", "": "", "/": "",
	} {
		require.Equal(t, want, imageProvider(name), name)
	}
}
