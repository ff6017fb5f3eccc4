//go:build !linux

package proberec

import (
	"os"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// file is the file of a recording, which only Linux has.
type file struct {
	*os.File
	memory            []byte
	chunks            uint64
	path              string
	previous, removed string
}

func createFile(string, int64) (*file, error) { return nil, stapsdt.ErrUnsupported }

func (f *file) publish(string) error { return stapsdt.ErrUnsupported }

func (f *file) close() error { return nil }

func (f *file) remove() {}

func describe(*recording.Head) {}
