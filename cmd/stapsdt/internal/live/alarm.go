//go:build linux

package live

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm wakes a goroutine after a time, with a timer of the kernel. A Go timer would wake a second thread of the
// runtime each time, and an idle command would use twice as much processor time.
type alarm struct {
	rang  <-chan time.Time
	timer *os.File // timer of the kernel, or nil
	fd    int      // descriptor of timer, whose method Fd would make it blocking
	spare *time.Timer
}

func newAlarm() *alarm {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return newSpareAlarm()
	}
	rang := make(chan time.Time, 1)
	a := &alarm{rang: rang, timer: os.NewFile(uintptr(fd), "timerfd"), fd: fd}
	go a.wait(rang)
	return a
}

func newSpareAlarm() *alarm {
	spare := time.NewTimer(time.Hour)
	return &alarm{rang: spare.C, spare: spare}
}

// wait passes on the times at which the alarm rings until it is closed.
func (a *alarm) wait(rang chan<- time.Time) {
	var expirations [8]byte
	for {
		if _, err := a.timer.Read(expirations[:]); err != nil {
			return
		}
		select {
		case rang <- time.Time{}:
		default:
		}
	}
}

// set sets the time after which the alarm rings, in place of an earlier one. The alarm may have rung already.
func (a *alarm) set(after time.Duration) {
	if a.timer == nil {
		a.spare.Reset(after)
		return
	}
	spec := &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(after, 1)))}
	if err := unix.TimerfdSettime(a.fd, 0, spec, nil); err != nil {
		panic(err) // it is a timer, and the time is valid
	}
}

func (a *alarm) close() {
	if a.timer != nil {
		a.timer.Close()
	} else {
		a.spare.Stop()
	}
}
