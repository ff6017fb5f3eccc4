// Package timestamp formats the times of events, most of which are in the same second as the time
// before.
package timestamp

import (
	"strconv"
	"time"
)

// Layouts for a Formatter.
const (
	DateTime = "2006-01-02T15:04:05"
	Clock    = "15:04:05"
)

// Formatter appends times of one zone. It formats the digits before the fraction once a second. It
// is not safe for concurrent use.
type Formatter struct {
	// Layout is the layout of the digits before the fraction.
	Layout string

	unix int64  // the second, since the beginning of 1970
	text []byte // its digits, or nil
}

// Append appends a time with nine digits of its fraction.
func (f *Formatter) Append(to []byte, at time.Time) []byte {
	if unix := at.Unix(); unix != f.unix || f.text == nil {
		f.unix, f.text = unix, at.AppendFormat(f.text[:0], f.Layout)
	}
	to = append(to, f.text...)
	point := len(to)
	to = strconv.AppendUint(to, 1e9+uint64(at.Nanosecond()), 10)
	to[point] = '.' // in place of the 1
	return to
}
