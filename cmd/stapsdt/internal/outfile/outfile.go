//go:build unix

// Package outfile makes the files to which commands write, and loses no file of a user.
package outfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Timeline is how a timeline begins.
const Timeline = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"

// Create makes a file for an output. What is there already stays, with an error: see Check.
func Create(path, begins string) (*os.File, error) {
	if err := Check(path, begins); err != nil {
		return nil, err
	}
	return os.Create(path)
}

// Check returns an error if a file must not be replaced: unless it is this user's, and is empty or begins like an output of the same kind. No
// output begins with "". A terminal or a pipe is written to.
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
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != uint32(os.Geteuid()) {
		return fmt.Errorf("%s belongs to user %d, and is not replaced", path, owner)
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
		return fmt.Errorf("%s exists, is no earlier output of this kind, and is not replaced", path)
	}
	return nil
}
