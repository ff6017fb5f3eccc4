package console

import (
	"os"
	"syscall"
)

// Ends returns the signals that end a command: Ctrl-C, and the end of the console or session.
func Ends() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }
