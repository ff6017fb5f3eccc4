//go:build linux

package recordings

import (
	"cmp"
	"os"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/stall"
)

// Live is the recording that a process writes. A file system that does not answer fails its reads.
type Live struct {
	file   *os.File
	device uint64
	// Path is the path that the process sees, and Size the size of the file.
	Path string
	Size int64
}

// Written opens the recording that a process writes, the first if there are several. It returns nil
// if the process writes none, or none that can be read. The file may be one of a hostile user. The
// error is a stall.Err if a file system kept Written from finding out.
func Written(pid int) (l *Live, err error) {
	err = eachMapped(pid, func(r *Recording, f *os.File, device uint64) (keep bool) {
		if keep = !r.Kept && r.Size <= maxBytes; keep {
			l = &Live{file: f, device: device, Path: r.File, Size: r.Size}
		}
		return keep
	})
	return l, err
}

// ReadAt implements io.ReaderAt.
func (l *Live) ReadAt(b []byte, offset int64) (int, error) {
	type result struct {
		part []byte
		err  error
	}
	size := len(b)
	r, err := stall.Do(l.device, func() (r result, _ error) {
		part := make([]byte, size) // an abandoned call may write to it later
		n, err := l.file.ReadAt(part, offset)
		return result{part[:n], err}, nil
	}, nil)
	return copy(b, r.part), cmp.Or(err, r.err)
}

// Close closes the file.
func (l *Live) Close() error { return l.file.Close() }
