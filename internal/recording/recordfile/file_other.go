//go:build !linux

package recordfile

import (
	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Create returns stapsdt.ErrUnsupported.
func Create(string, int64, bool) (*File, error) { return nil, stapsdt.ErrUnsupported }

// Use returns stapsdt.ErrUnsupported.
func Use(int, int64) (*File, error) { return nil, stapsdt.ErrUnsupported }

// Publish returns stapsdt.ErrUnsupported.
func (f *File) Publish(string, string) error { return stapsdt.ErrUnsupported }

// Close does nothing.
func (f *File) Close() error { return nil }

// Remove does nothing.
func (f *File) Remove() {}

// Describe does nothing.
func Describe(*recording.Head) {}

// directory does not exist.
type directory struct{}
