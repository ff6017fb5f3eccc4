package recording

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Variable is the environment variable that makes a program record.
const Variable = "STAPSDT_RECORD"

// DefaultBytes is the size of a recording for which none is given.
const DefaultBytes = 16 << 20

// switches lists the values of other variables, which are not paths of recordings.
var switches = []string{"true", "yes", "on", "false", "no", "off"}

// ParseVariable parses the value of Variable, which is FILE or FILE,SIZE.
// cstapsdt/recorder/program.c does the same.
func ParseVariable(value string) (path string, size int64, err error) {
	path, size = value, DefaultBytes
	if comma := strings.LastIndexByte(value, ','); comma >= 0 {
		path, size = value[:comma], ParseSize(value[comma+1:])
	}
	switch isSwitch := slices.Contains(switches, strings.ToLower(path)); {
	case strings.ContainsFunc(path, unicode.IsControl):
		err = fmt.Errorf("%s=%q: the path has control characters", Variable, value)
	case isSwitch, strings.Trim(path, "0123456789") == "", size < MinBytes, size > MaxBytes:
		err = fmt.Errorf("%s=%q: it must be FILE or FILE,SIZE, with a SIZE from 256K to 1G", Variable, value)
	}
	return path, size, err
}

// ParseSize parses a number of bytes, optionally with the suffix K, M or G. It returns 0 for
// anything else.
func ParseSize(text string) int64 {
	shift := 0
	if last := len(text) - 1; last >= 0 {
		if i := strings.IndexByte("KMG", text[last]); i >= 0 {
			text, shift = text[:last], 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(text, 10, 63-shift)
	if err != nil {
		return 0
	}
	return int64(n) << shift
}
