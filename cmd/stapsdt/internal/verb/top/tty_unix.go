//go:build unix

package top

import (
	"os"
	"os/signal"
	"time"

	"github.com/gdamore/tcell/v2"
	"golang.org/x/sys/unix"
)

// openTTY opens a terminal by its device.
func openTTY(device string) (tcell.Tty, error) { return tcell.NewDevTtyFromDev(device) }

// notifyStop delivers the signals that stop the process.
func notifyStop(stops chan<- os.Signal) { signal.Notify(stops, unix.SIGTSTP) }

// stopPatience is the maximum time that a stop takes.
const stopPatience = 300 * time.Millisecond

// stop stops the process group, and returns when it continues.
func stop() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	_ = unix.Kill(0, unix.SIGSTOP) // SIGTSTP is caught
	select {
	case <-continued:
	case <-time.After(stopPatience):
	}
}

// continues reports whether the parent can continue the process after a stop: it must be in the
// same session, as a shell is. The kernel does not let the terminal stop other processes either.
func continues() bool {
	own, err := unix.Getsid(0)
	parents, parentErr := unix.Getsid(os.Getppid())
	return err == nil && parentErr == nil && own == parents
}
