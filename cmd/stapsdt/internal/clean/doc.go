//go:build linux

// Package clean removes the images that the library and libstapsdt have left. The kernel says by a
// lease whether any process, also in other namespaces, has a file open or mapped.
package clean
