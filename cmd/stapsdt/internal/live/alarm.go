//go:build linux

package live

import "time"

// alarm wakes a goroutine after a time. Unlike a Go timer, it does not wake a second thread of the runtime each time: an idle
// command would use twice as much processor time.
type alarm struct {
	rang  <-chan time.Time
	timer *timer // or nil
	doze  *timer // of sleep, or nil
	spare *time.Timer
}

// over is the channel of an alarm that has rung.
var over = func() <-chan time.Time { c := make(chan time.Time); close(c); return c }()

func newAlarm() *alarm {
	t, err := newTimer()
	if err != nil {
		return newSpareAlarm()
	}
	rang := make(chan time.Time, 1)
	a := &alarm{rang: rang, timer: t}
	a.doze, _ = newTimer()
	go a.wait(rang)
	return a
}

func newSpareAlarm() *alarm {
	spare := time.NewTimer(time.Hour)
	return &alarm{rang: spare.C, spare: spare}
}

// wait passes on the times at which the alarm rings until it is closed.
func (a *alarm) wait(rang chan<- time.Time) {
	for a.timer.wait() == nil {
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
	a.timer.set(after)
}

// sleep lets the calling goroutine sleep, and reports whether it did. It takes less of a processor than an alarm, for which
// another goroutine wakes first.
func (a *alarm) sleep(d time.Duration) bool {
	if a.doze == nil {
		return false
	}
	a.doze.set(d)
	return a.doze.wait() == nil
}

func (a *alarm) close() {
	if a.timer == nil {
		a.spare.Stop()
		return
	}
	a.timer.Close()
	if a.doze != nil {
		a.doze.Close()
	}
}
