package proberec

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
	"github.com/go-stapsdt/stapsdt/internal/recording/recordfile"
)

// Create is like New, but the recorder keeps the events in a file, which survives the process
// however it ends: stapsdt reads it with --from FILE, and docs/recording.md describes it. Call
// Start to begin to record. The file takes size bytes, or 16 MiB if size is 0, and a little more
// for its head and the names of probes. It has at least 256 KiB, and Create fails if size is more
// than 1 GiB. Create allocates all of it at once, and only the user may access the file (mode
// 0600). In the path, %p stands for the PID. If the last directory of the path is missing, Create
// makes it, with mode 0700, unless its path has a %p.
//
// If this or another process already records to the path, or the path is a file of another user,
// the file is called PATH.PID, or PATH.PID.2 and so on if that is taken. If the path is a recording
// that an earlier process has left, Create renames it: the new name has the present time, and
// [Recorder.Previous] returns it.
//
// Create keeps five recordings of ended processes to the path, whatever PID %p stands for. If there
// are more, it first removes recordings that Close ended, then those of processes that began while
// another recorded to the path, such as children of a service, and last those of other crashed
// processes; of each kind, the oldest first. Create renames and removes only files of this user
// that begin like a recording.
//
// Create fails
//
//   - if the path is empty, or a file of the user that is not a recording;
//   - in a directory in which other users could replace the file, or to which a directory or a link
//     of theirs leads;
//   - on a network or FUSE file system, or one that cannot reserve space (btrfs, zfs);
//   - if there is not enough space, or memory on tmpfs;
//   - with [stapsdt.ErrUnsupported] on systems other than Linux.
//
// It then returns a nil Recorder, with which a program can continue. Choose tmpfs, such as
// /dev/shm, if the program must not wait for a disk: a fire that writes to a page of a file while
// the kernel writes this page to the disk can wait for it.
//
// If the file is truncated or its disk fails, the recording ends, and the program continues: see
// [Recorder.Err].
func Create(path string, size int64, providers ...*stapsdt.Provider) (*Recorder, error) {
	r, err := create(path, size, providers)
	if err == nil && len(providers) == 0 {
		endEnvironment()
	}
	return r, err
}

func create(pattern string, size int64, providers []*stapsdt.Provider) (*Recorder, error) {
	if pattern == "" {
		return nil, errors.New("proberec: create: the path is empty")
	}
	path := strings.ReplaceAll(pattern, "%p", strconv.Itoa(os.Getpid()))
	size = recordingSize(size)
	f, err := newFile(path, size, !strings.Contains(filepath.Dir(pattern), "%p"))
	if err != nil {
		return nil, fmt.Errorf("proberec: create %s: %w", path, err)
	}
	r := &Recorder{
		size: size, providers: slices.Clone(providers), file: f,
		writer: newWriter(f.Memory, f.Chunks, recorder.Options{}),
	}
	if err := f.Publish(path, pattern); err != nil {
		f.Remove()
		return nil, fmt.Errorf("proberec: create %s: %w", path, err)
	}
	return r, nil
}

// newFile makes the file of a recording and, on demand, the last directory of its path.
func newFile(path string, size int64, makes bool) (*recordfile.File, error) {
	if size > recording.MaxBytes {
		return nil, fmt.Errorf("a recording has at most %d bytes", recording.MaxBytes)
	}
	return recordfile.Create(path, size, makes)
}

// Path returns the path of the file to which the recorder writes, or "" if it has none.
func (r *Recorder) Path() string {
	if r == nil || r.file == nil {
		return ""
	}
	return r.file.Path
}

// Previous returns the new path of the file that an earlier process had left, or "" if Create found
// none.
func (r *Recorder) Previous() string {
	if r == nil || r.file == nil {
		return ""
	}
	return r.file.Previous
}

// Err returns the reason if the recording has ended by itself, because the file was truncated or
// its file system has failed, and otherwise nil. The program continues, and nothing more is
// recorded. [Create] can make another recording once the file is removed or renamed.
func (r *Recorder) Err() error {
	if r == nil {
		return nil
	}
	r.state.Lock()
	defer r.state.Unlock()
	if r.file == nil || !r.writer.Failed() {
		return nil
	}
	if info, err := r.file.Stat(); err == nil && info.Size() < r.writer.Bytes() {
		return fmt.Errorf("proberec: the recording %s has ended: the file was truncated to %d bytes", r.file.Path, info.Size())
	}
	return fmt.Errorf("proberec: the recording %s has ended: its file system has failed", r.file.Path)
}

// Close stops the recording for good. It closes the file of a recorder that Create has made; the
// file stays. When Close has returned, no fire writes to the recording. Close returns the error of
// closing the file, and nil if it is called again.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	r.Stop()
	r.state.Lock()
	defer r.state.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	if r.writer != nil {
		r.writer.Close()
	}
	if r.file == nil {
		return nil
	}
	if err := r.file.Close(); err != nil {
		return fmt.Errorf("proberec: close %s: %w", r.file.Path, err)
	}
	return nil
}
