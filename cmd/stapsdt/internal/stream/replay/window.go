package replay

import (
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// From names the source that is read in place of processes: recordings, the page of a program, or
// pods.
type From struct {
	// Paths are the paths of recordings. With Follow, events that are written from now on are read
	// too.
	Paths  []string
	Follow bool
	// Address is the address of the page.
	Address string
	// Replicas are the pods that send their events, or nil.
	Replicas Replicas
	// Since and Until are times, durations before the last event, or "".
	Since, Until string
}

// Given reports whether a source is named.
func (f *From) Given() bool {
	return len(f.Paths) > 0 || f.Address != "" || f.Replicas != nil
}

// window is the range of times, by CLOCK_REALTIME, in which events are read.
type window struct{ since, until int64 }

// always is the window of all events.
var always = window{math.MinInt64, math.MaxInt64}

// window returns the range of times in open files that Since and Until select.
func (f *From) window(files []*File) (w window, err error) {
	w = always
	last := sync.OnceValues(func() (int64, error) { return lastOf(files) })
	if w.since, err = moment("--since", f.Since, last, w.since); err == nil {
		w.until, err = moment("--until", f.Until, last, w.until)
	}
	return w, err
}

// lastOf returns the time of the last event of all recordings. It does not read on in the files.
func lastOf(files []*File) (last int64, err error) {
	for _, f := range files {
		at, err := f.LastRealtime()
		if err != nil {
			return 0, fmt.Errorf("%s: %w", f.Path, err)
		}
		last = max(last, at)
	}
	return last, nil
}

// moment parses the time in a flag, or returns otherwise if it is "". It calls last only if it
// needs the time of the last event.
func moment(flag, text string, last func() (int64, error), otherwise int64) (int64, error) {
	if text == "" {
		return otherwise, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		end, err := last()
		return end - recording.Bounded(int64(ago)), err
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return recording.Nanoseconds(at), nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "15:04:05", "15:04"} {
		at, err := time.ParseInLocation(layout, text, time.Local)
		if err != nil {
			continue
		}
		if at.Year() == 0 { // a time without a date is the last such time of the recordings
			nanoseconds, err := last()
			if err != nil {
				return 0, err
			}
			end := time.Unix(0, nanoseconds)
			at = time.Date(
				end.Year(),
				end.Month(),
				end.Day(),
				at.Hour(),
				at.Minute(),
				at.Second(),
				at.Nanosecond(),
				time.Local,
			)
			if at.After(end) {
				at = at.AddDate(0, 0, -1)
			}
		}
		return recording.Nanoseconds(at), nil
	}
	return 0, query.Usagef("%s takes a time such as 17:28:50.5 or 2026-11-23T17:28:50Z, or how long before the last event it is, such as 10s, not %q", flag, text)
}
