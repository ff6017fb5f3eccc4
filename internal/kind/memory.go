package kind

import "math"

// WallFraction is the number of the lowest bits of the field wall, which are nanoseconds.
const WallFraction = 30

// The beginnings of the years 1 and 1885, in seconds since 1970.
const (
	Start1    = -62_135_596_800
	Start1885 = -2_682_288_000
)

// FromWords returns the moment of a time.Time by the fields wall and ext, with which its memory
// begins. ok is false if no time has these words, or if no moment represents the time: it is
// before FirstSecond or after LastSecond, but not the zero Time.
//
// Package time documents the fields. The highest bit of wall is a flag. If it is set, wall has 33
// bits of seconds since 1885, and ext has no part of the time. Otherwise these bits are 0, and ext
// has the seconds since the year 1.
func FromWords(wall, ext uint64) (n int64, ok bool) {
	const flag, second = 1 << 63, 1_000_000_000
	seconds, fraction := int64(ext)+Start1, int64(wall&(1<<WallFraction-1))
	switch {
	case wall&flag != 0:
		seconds = int64(wall&^flag>>WallFraction) + Start1885
	case wall == 0 && ext == 0:
		return math.MinInt64, true
	case wall>>WallFraction != 0:
		return 0, false
	}
	ok = fraction < second && seconds >= FirstSecond && seconds <= LastSecond
	return seconds*second + fraction, ok
}
