package testenv

import (
	"os"
	"regexp"
	"strconv"
	"testing"
)

// Table returns the numbers in a table of the C library by their names. Each line of the table is a macro with a
// name and a number, as in
//
//	SDT_LAYOUT(MAJOR, 1)
//
// A test that needs a table does not run where it is emulated, because the sources are not there.
func Table(t testing.TB, path, macro string) map[string]uint64 {
	t.Helper()
	NotEmulated(t, "the sources are not there")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^` + macro + `\((\w+), (\w+)\)$`)
	numbers := map[string]uint64{}
	for _, fields := range row.FindAllStringSubmatch(string(text), -1) {
		number, err := strconv.ParseUint(fields[2], 0, 64)
		if err != nil {
			t.Fatalf("%s: %s: %v", path, fields[0], err)
		}
		numbers[fields[1]] = number
	}
	return numbers
}
