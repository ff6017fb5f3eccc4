// Package recordfile makes the files of recordings: files with reserved space, which their process
// locks, and which replace earlier files without losing them.
package recordfile
