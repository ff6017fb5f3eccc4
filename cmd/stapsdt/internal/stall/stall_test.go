//go:build linux

package stall

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const short = 20 * time.Millisecond

// TestDo: a call that does not return delays its caller once. What has the same key fails at once
// until it returns, and nothing else does.
func TestDo(t *testing.T) {
	value, err := Do("other", func() (int, error) { return 7, errors.New("wrong") }, nil)
	require.Equal(t, 7, value)
	require.EqualError(t, err, "wrong")

	before := Count()
	answer := make(chan int)
	var late atomic.Int64
	hang := func() (int, error) { return <-answer, nil }
	_, err = Within(short, t.Name(), hang, func(v int) { late.Store(int64(v)) })
	require.ErrorIs(t, err, Err)
	start := time.Now()
	for range 100 {
		require.ErrorIs(t, Run(t.Name(), func() error { assert.Fail(t, "it was called"); return nil }), Err)
		require.NoError(t, Run("other", func() error { return nil }))
	}
	require.Less(t, time.Since(start), Patience)
	require.Equal(t, before+1, Count())

	answer <- 8
	require.Eventually(t, func() bool { return late.Load() == 8 }, time.Minute, time.Millisecond)
	require.NoError(t, Run(t.Name(), func() error { return nil }))
}

// slowReader reads when it may.
type slowReader struct {
	mu sync.Mutex
	io.ReaderAt
}

func (r *slowReader) ReadAt(p []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ReaderAt.ReadAt(p, off)
}

// TestReader: a reader reads what there is, and never writes to memory of a caller that has gone.
func TestReader(t *testing.T) {
	slow := &slowReader{ReaderAt: bytes.NewReader([]byte("content"))}
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
	slow.mu.Lock()
	n, err = r.ReadAt(p, 0)
	require.Zero(t, n)
	require.ErrorIs(t, err, Err)
	copy(p, "mine")
	slow.mu.Unlock()
	require.Eventually(t, func() bool { n, err = r.ReadAt(make([]byte, 4), 0); return err == nil }, time.Minute, time.Millisecond)
	require.Equal(t, "mine", string(p))
}
