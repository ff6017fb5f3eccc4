// Package outfile creates the files to which commands write, without overwriting other files of a
// user.
package outfile

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Timelines are the bytes with which timeline files begin, by their formats.
var Timelines = map[string]string{
	"chrome": "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n",
	// the track for marks that belong to no process
	"perfetto": "\n\x12@\x00P\x01\xe2\x03\v\b\x01\x12\astapsdt",
}

// Create creates a file for an output. If Check refuses to replace an existing file, it returns
// that error.
func Create(path, begins string) (*os.File, error) {
	if err := Check(path, begins); err != nil {
		return nil, err
	}
	return os.Create(path)
}

// Check returns an error if a file must not be replaced. A file may be replaced if it belongs to
// this user, and is empty or begins like an output of the same kind. begins is "" if outputs have
// no known beginning. Check allows a terminal and a pipe.
func Check(path, begins string) error {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	if owner, ours := ownerOf(info); !ours {
		return fmt.Errorf("%s belongs to user %d; it is not overwritten", path, owner)
	}
	if info.Size() == 0 {
		return nil
	}
	head := make([]byte, len(begins))
	f, err := os.Open(path)
	if err == nil {
		_, err = io.ReadFull(f, head)
		f.Close()
	}
	if err != nil && err != io.ErrUnexpectedEOF {
		return err
	}
	if begins == "" || string(head) != begins {
		return fmt.Errorf("%s exists and was not written by this command; it is not overwritten", path)
	}
	return nil
}
