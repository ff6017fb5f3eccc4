// Package recordfile makes the files of recordings: files with a promise of room, which their process
// locks, and which take the place of earlier ones without losing them.
package recordfile
