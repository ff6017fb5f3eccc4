// Package recordfile makes the files of recordings: files with reserved space, which their process
// locks, and which replace earlier files without losing them.
package recordfile

import "os"

// File is the file of a recording, which this process has locked and mapped. Only Linux has it.
type File struct {
	*os.File
	Memory []byte
	Chunks uint64
	Path   string
	// Previous is the new path of the recording of an earlier process, and Removed the oldest of
	// such recordings, which were removed; both are empty if there is none.
	Previous, Removed string

	directory *directory // until the file is published
}
