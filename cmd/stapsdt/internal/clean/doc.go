//go:build linux

// Package clean removes the images that the library and libstapsdt have left. A lease on a file
// shows whether any process, even in another namespace, has the file open or mapped.
package clean
