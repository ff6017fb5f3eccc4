package console

import (
	"os"

	"golang.org/x/sys/windows"
)

// movesCursor reports whether a terminal obeys control sequences, which Windows does only on
// request.
func movesCursor(f *os.File) bool {
	h := windows.Handle(f.Fd())
	var mode uint32
	if windows.GetConsoleMode(h, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(h, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
