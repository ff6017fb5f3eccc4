//go:build linux

package stall

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestDo: a call that does not return delays its caller once. What has the same key fails at once
// until it returns, and nothing else does.
func TestDo(t *testing.T) { synctest.Test(t, testDo) }

func testDo(t *testing.T) {
	value, err := Do("other", func() (int, error) { return 7, errors.New("wrong") }, nil)
	require.Equal(t, 7, value)
	require.EqualError(t, err, "wrong")

	before := Count()
	answer := make(chan int)
	late := 0
	hang := func() (int, error) { return <-answer, nil }
	start := time.Now()
	_, err = Within(Patience, t.Name(), hang, func(v int) { late = v })
	require.Equal(t, ErrLate, err)
	require.Equal(t, Patience, time.Since(start))
	_, err = Within(Patience, t.Name(), hang, nil)
	require.Equal(t, Err, err, "it was not begun")
	for range 100 {
		require.ErrorIs(t, run(t.Name(), func() error { assert.Fail(t, "it was called"); return nil }), Err)
		require.NoError(t, run("other", func() error { return nil }))
	}
	require.Equal(t, Patience, time.Since(start))
	require.Equal(t, before+1, Count())

	answer <- 8
	synctest.Wait()
	require.Equal(t, 8, late)
	require.NoError(t, run(t.Name(), func() error { return nil }))
}

// TestLate: a key that takes time is found only while a call hangs, and then counts like any other.
func TestLate(t *testing.T) { synctest.Test(t, testLate) }

func testLate(t *testing.T) {
	asked := 0
	key := Late(func() any { asked++; return Of{Owner: t.Name(), System: 1} })
	answer := make(chan int)
	require.NoError(t, run(key, func() error { return nil }))
	require.Zero(t, asked)
	_, err := Do(key, func() (int, error) { return <-answer, nil }, nil)
	require.ErrorIs(t, err, Err)
	require.Equal(t, 1, asked)
	require.ErrorIs(t, run(key, func() error { assert.Fail(t, "it was called"); return nil }), Err)
	require.ErrorIs(t, run(Of{Owner: t.Name(), System: 1}, func() error { return nil }), Err)
	require.NoError(t, run(Of{Owner: t.Name(), System: 2}, func() error { return nil }))
	require.Equal(t, 2, asked)
	answer <- 8
	synctest.Wait()
	require.NoError(t, run(key, func() error { return nil }))
	require.Equal(t, 2, asked)
}

// TestPatience: time in which this process could not run does not count. The clock shows that an
// hour has passed with each tick, but the process has seen one less than it waits for.
func TestPatience(t *testing.T) { synctest.Test(t, testPatience) }

func testPatience(t *testing.T) {
	original := newTicker
	defer func() { newTicker = original }()
	seen := make(chan time.Time)
	newTicker = func(time.Duration) (<-chan time.Time, func()) { return seen, func() {} }
	answer := make(chan int)
	tick := func(n int) {
		for hour := range n {
			seen <- time.Now().Add(time.Duration(hour) * time.Hour)
		}
	}
	go func() {
		tick(ticks - 1)
		answer <- 7
	}()
	value, err := Do(t.Name(), func() (int, error) { return <-answer, nil }, nil)
	require.NoError(t, err)
	require.Equal(t, 7, value)

	go tick(ticks)
	_, err = Do(t.Name(), func() (int, error) { return <-answer, nil }, nil)
	require.ErrorIs(t, err, Err)
	answer <- 8
	synctest.Wait()
}

// slowReader reads when it may.
type slowReader struct {
	may chan struct{} // closed when it may
	io.ReaderAt
}

func (r *slowReader) ReadAt(p []byte, off int64) (int, error) {
	<-r.may
	return r.ReaderAt.ReadAt(p, off)
}

// TestReader: a reader reads what there is, and never writes to memory of a caller that has gone.
func TestReader(t *testing.T) { synctest.Test(t, testReader) }

func testReader(t *testing.T) {
	slow := &slowReader{make(chan struct{}), bytes.NewReader([]byte("content"))}
	close(slow.may)
	r := Reader{slow, t.Name()}
	p := make([]byte, 4)
	n, err := r.ReadAt(p, 5)
	require.Equal(t, 2, n)
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, "nt", string(p[:n]))

	large := bytes.Repeat([]byte("0123456789"), chunk/4)
	p = make([]byte, len(large))
	n, err = Reader{bytes.NewReader(large), t.Name()}.ReadAt(p, 0)
	require.NoError(t, err)
	require.Equal(t, large, p[:n])

	p = make([]byte, 4)
	slow.may = make(chan struct{})
	n, err = r.ReadAt(p, 0)
	require.Zero(t, n)
	require.ErrorIs(t, err, Err)
	copy(p, "mine")
	close(slow.may)
	synctest.Wait()
	require.Equal(t, "mine", string(p))
	n, err = r.ReadAt(p, 0)
	require.NoError(t, err)
	require.Equal(t, "cont", string(p[:n]))
}

// closer records whether it was closed.
type closer bool

func (c *closer) Close() error {
	*c = true
	return nil
}

// TestOf: what hangs is its owner's alone, and no owner has more than maxStalls threads that hang, not even to close files. A file
// is closed as soon as the file systems answer again.
func TestOf(t *testing.T) { synctest.Test(t, testOf) }

func testOf(t *testing.T) {
	answer := make(chan int)
	nothing := func() error { return nil }
	hang := func() error { <-answer; return nil }
	for system := range maxStalls {
		require.NoError(t, run(Of{"a", "local"}, nothing))
		require.ErrorIs(t, run(Of{"a", system}, hang), Err)
		require.ErrorIs(t, run(Of{"a", system}, nothing), Err)
		require.NoError(t, run(Of{"b", system}, nothing))
		require.NoError(t, run(system, nothing))
	}
	require.ErrorIs(t, run(Of{"a", "local"}, nothing), Err)
	require.NoError(t, run(Of{"b", "local"}, nothing))

	var local, hung, other closer
	require.ErrorIs(t, Close(Of{"a", "local"}, &local), Err)
	require.ErrorIs(t, Close(Of{"a", 0}, &hung), Err)
	require.NoError(t, Close(Of{"b", "local"}, &other))
	require.Equal(t, []closer{false, false, true}, []closer{local, hung, other})
	close(answer)
	synctest.Wait()
	require.Equal(t, []closer{true, true, true}, []closer{local, hung, other})
	require.NoError(t, run(Of{"a", 0}, nothing))
	require.NoError(t, run(Of{"a", "local"}, nothing))
	require.Empty(t, stalls)
	require.Empty(t, closers)
}

// run is Do for a call that returns an error only.
func run(key any, f func() error) error {
	_, err := Do(key, func() (struct{}, error) { return struct{}{}, f() }, nil)
	return err
}

// TestPasses: a shortage is found in whatever an error was wrapped in, and a verdict is none.
func TestPasses(t *testing.T) {
	for err, want := range map[error]bool{
		unix.EMFILE: true, unix.ENFILE: true, unix.ENOMEM: true, unix.EAGAIN: true, unix.EINTR: true, Err: true,
		unix.EPERM: false, unix.EACCES: false, unix.EINVAL: false, unix.E2BIG: false, unix.ENOSPC: false,
	} {
		require.Equal(t, want, Passes(err), err)
		require.Equal(t, want, Passes(fmt.Errorf("load: %w", &fs.PathError{Op: "open", Path: "/x", Err: err})), err)
		require.Equal(t, want, Passes(errors.Join(errors.New("other"), err)), err)
	}
	require.False(t, Passes(nil))
	require.False(t, Passes(errors.New("undefined: x")))
}
