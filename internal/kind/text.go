package kind

import (
	"math"
	"strconv"
	"time"
)

// AppendText appends a value other than a text for people. bits is its number, with its sign
// extended, or the bits of a float64. A float has as many digits as a float of the size in bytes
// needs. A moment is in the notation of RFC 3339, in UTC.
func AppendText(to []byte, c Class, u Unit, size int, bits uint64) []byte {
	switch u {
	case Nanoseconds:
		return append(to, time.Duration(bits).String()...)
	case Address:
		return strconv.AppendUint(append(to, "0x"...), bits, 16)
	case Moment:
		return appendMoment(to, int64(bits))
	}
	switch c {
	case Truth:
		return strconv.AppendBool(to, bits != 0)
	case Int:
		return strconv.AppendInt(to, int64(bits), 10)
	case Uint:
		return strconv.AppendUint(to, bits, 10)
	case Float:
		return strconv.AppendFloat(to, math.Float64frombits(bits), 'g', -1, 8*size)
	}
	return to
}

// AppendJSON appends a value other than a text as JSON. A duration becomes its nanoseconds. Values
// that are not numbers in JSON become strings: NaN, the infinities, addresses in hexadecimal,
// moments.
func AppendJSON(to []byte, c Class, u Unit, size int, bits uint64) []byte {
	quoted := u == Address || u == Moment
	if c == Float {
		f := math.Float64frombits(bits)
		quoted = math.IsNaN(f) || math.IsInf(f, 0)
	}
	if quoted {
		return append(AppendText(append(to, '"'), c, u, size, bits), '"')
	}
	return AppendText(to, c, None, size, bits)
}

// Parse returns the bits of a value other than a text from what AppendJSON appended, without
// quotes. It returns 0 for any other text.
func Parse(c Class, u Unit, text string) uint64 {
	switch {
	case c == Truth && text == "true":
		return 1
	case c == Float:
		f, _ := strconv.ParseFloat(text, 64)
		return math.Float64bits(f)
	case u == Moment:
		n, _ := ParseTime(text)
		return uint64(n)
	}
	if i, err := strconv.ParseInt(text, 0, 64); err == nil {
		return uint64(i)
	}
	i, _ := strconv.ParseUint(text, 0, 64)
	return i
}

// The first and the last second since 1970 that an int64 of nanoseconds can represent completely.
const (
	FirstSecond = math.MinInt64/1_000_000_000 + 1
	LastSecond  = math.MaxInt64/1_000_000_000 - 1
)

// FromTime returns a moment as its number. A moment that is too early, such as the zero Time,
// becomes the smallest number, and a moment that is too late the largest.
func FromTime(t time.Time) int64 {
	switch s := t.Unix(); {
	case s < FirstSecond:
		return math.MinInt64
	case s > LastSecond:
		return math.MaxInt64
	}
	return t.UnixNano()
}

// appendMoment is ToTime(n).AppendFormat(to, time.RFC3339Nano), which would add 65 KB to every
// program with probes: it can find the zone of the machine.
func appendMoment(to []byte, n int64) []byte {
	if n == math.MinInt64 {
		return append(to, "0001-01-01T00:00:00Z"...)
	}
	m := momentOf(n)
	to = appendDigits(to, 4, m.year, '-')
	to = appendDigits(to, 2, m.month, '-')
	to = appendDigits(to, 2, m.date, 'T')
	to = appendDigits(to, 2, m.seconds/3600, ':')
	to = appendDigits(to, 2, m.seconds/60%60, ':')
	to = appendDigits(to, 2, m.seconds%60, '.')
	to = appendDigits(to, 9, m.fraction, 'Z')
	end := len(to) - 1
	for to[end-1] == '0' {
		end--
	}
	if to[end-1] == '.' {
		end--
	}
	return append(to[:end], 'Z')
}

// FileTime returns a moment in a notation for the names of files: 20060102T150405.000000000Z.
func FileTime(t time.Time) string {
	m := momentOf(FromTime(t))
	s := appendDigits(nil, 8, m.year*10_000+m.month*100+m.date, 'T')
	s = appendDigits(s, 6, m.seconds/3600*10_000+m.seconds/60%60*100+m.seconds%60, '.')
	return string(appendDigits(s, 9, m.fraction, 'Z'))
}

// moment is a date in UTC, and the seconds and the nanoseconds of its time of day.
type moment struct{ year, month, date, seconds, fraction int64 }

func momentOf(n int64) (m moment) {
	const second, day = 1_000_000_000, 24 * 60 * 60
	m.seconds, m.fraction = n/second, n%second
	if m.fraction < 0 {
		m.seconds, m.fraction = m.seconds-1, m.fraction+second
	}
	m.seconds += 1970 * 366 * day // still positive, and whole days
	m.year, m.month, m.date = civil(m.seconds/day - 1970*366)
	m.seconds %= day
	return m
}

// civil returns the date of a day, which is counted from the beginning of 1970. An era has 400
// years. The first begins on March 1 of the year 0, so that a leap day is the last of its year.
func civil(day int64) (year, month, date int64) {
	const era = 400*365 + 97
	day += 719_468
	at := day % era
	ofEra := (at - at/1460 + at/36524 - at/(era-1)) / 365
	ofYear := at - (365*ofEra + ofEra/4 - ofEra/100)
	month = (5*ofYear + 2) / 153 // from March on
	date = ofYear - (153*month+2)/5 + 1
	year = day/era*400 + ofEra
	if month += 3; month > 12 {
		month, year = month-12, year+1
	}
	return year, month, date
}

// appendDigits appends a number with a count of digits, and a character after it.
func appendDigits(to []byte, count int, n int64, after byte) []byte {
	start := len(to)
	for range count {
		to = append(to, '0')
	}
	for i := len(to) - 1; i >= start; i-- {
		to[i] += byte(n % 10)
		n /= 10
	}
	return append(to, after)
}

// ToTime returns the moment of a number, in UTC. The moment of the smallest number is the zero
// Time.
func ToTime(n int64) time.Time {
	if n == math.MinInt64 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// ParseTime returns the number of a moment in the notation of RFC 3339, or 0 and an error.
func ParseTime(text string) (n int64, err error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return 0, err
	}
	return FromTime(t), nil
}
