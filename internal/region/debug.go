//go:build linux

package region

import (
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/proc"

	"golang.org/x/sys/unix"
)

// debugLoaded prints an image and its place, if STAPSDT_DEBUG=1 is in the
// environment.
func debugLoaded(im *image.Image, home *Home) {
	if debugging() {
		how := "by " + im.Builder
		if im.Builder == "Go" {
			how = "in Go"
		}
		debug(im, fmt.Sprintf("placed in %s (%s, built %s)", home.Path(), im.Nop.Name, how))
	}
}

// debugSkipped prints the reason why a place was not used.
func debugSkipped(im *image.Image, err error) {
	if debugging() {
		debug(im, fmt.Sprintf("skipped: %v", err))
	}
}

func debugging() bool { return proc.Getenv("STAPSDT_DEBUG") == "1" }

// debug writes a line to standard error with one system call, so that the lines of several
// threads and processes do not mix.
func debug(im *image.Image, text string) {
	var line []byte
	for _, r := range "stapsdt: " + im.Provider + ": " + text {
		if unicode.IsControl(r) {
			r = '?'
		}
		line = utf8.AppendRune(line, r)
	}
	unix.Write(unix.Stderr, append(line, '\n'))
}
