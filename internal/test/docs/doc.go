// Package docs follows the README and the examples' READMEs: its tests run the commands
// that a document tells a reader to run, and compare what they print with what the
// document shows.
//
// Like a reader, the tests use the go command's environment. To follow the documents in
// the other build, set CGO_ENABLED.
package docs
