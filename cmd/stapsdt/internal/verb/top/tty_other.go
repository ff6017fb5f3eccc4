//go:build !unix

package top

import (
	"errors"
	"os"

	"github.com/gdamore/tcell/v2"
)

// openTTY returns an error: there is no terminal that has a device, and the tables are shown
// without keys.
func openTTY(string) (tcell.Tty, error) { return nil, errors.ErrUnsupported }

func notifyStop(chan<- os.Signal) {}

func stop() {}

func continues() bool { return false }
