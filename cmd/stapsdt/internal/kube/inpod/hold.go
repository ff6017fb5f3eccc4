//go:build linux

package inpod

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// HoldTime is the time for which a recording is kept to be fetched.
const HoldTime = 5 * time.Minute

// NewMemory returns a file of size bytes for a recording, in the memory of this process. The kernel
// frees it however the process ends. A file in a file system would keep its memory after an OOM
// kill.
func NewMemory(a Allowance, size int64) (*os.File, error) {
	if err := a.check(size); err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("stapsdt-recording", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	held.Store(size)
	return os.NewFile(uintptr(fd), "/dev/fd/"+fmt.Sprint(fd)), nil
}

// Hold prints the place and the checksum of the recording in a file of this process, and keeps it
// until gone is done or HoldTime has passed.
func Hold(gone context.Context, out io.Writer, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, info.Size())); err != nil {
		return err
	}
	r := Recording{
		PID: os.Getpid(), FD: int(f.Fd()), Size: info.Size(), Path: f.Name(),
		SHA256: hex.EncodeToString(sum.Sum(nil)),
	}
	if err := json.NewEncoder(out).Encode(r); err != nil {
		return err
	}
	select {
	case <-gone.Done():
	case <-time.After(HoldTime):
	}
	return nil
}

// Send writes the recording that another process of this container holds. It compresses the
// recording, because most of it may be empty.
func Send(out io.Writer, pid, fd int) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
	if err != nil {
		return fmt.Errorf("the recording is gone: %w", err)
	}
	defer f.Close()
	w, _ := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if _, err := io.Copy(w, f); err != nil {
		return err
	}
	return w.Close()
}

// ReadInput reads the standard input of a request. stopped is done when a byte has arrived or the
// input has ended, and gone when it has ended.
func ReadInput(from io.Reader) (stopped, gone context.Context) {
	stopped, stop := context.WithCancel(context.Background())
	gone, end := context.WithCancel(context.Background())
	go func() {
		defer end()
		defer stop()
		for b := make([]byte, 1); ; {
			n, err := from.Read(b)
			if n > 0 {
				stop()
			}
			if err != nil {
				return
			}
		}
	}()
	return stopped, gone
}
