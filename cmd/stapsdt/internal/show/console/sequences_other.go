//go:build !windows

package console

import "os"

// movesCursor reports whether a terminal obeys control sequences.
func movesCursor(*os.File) bool { return os.Getenv("TERM") != "dumb" }
