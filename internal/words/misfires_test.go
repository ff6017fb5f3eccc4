package words

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMisfires: each function hears of the fires between its Add and its stop.
func TestMisfires(t *testing.T) {
	var m Misfires
	var heard []string
	add := func(name string) (stop func()) {
		return m.Add(func(err error) { heard = append(heard, name+": "+err.Error()) })
	}
	m.Report(errors.New("before"))
	stopA := add("a")
	stopB := add("b")
	m.Report(errors.New("1"))
	stopA()
	stopA()
	m.Report(errors.New("2"))
	stopB()
	m.Report(errors.New("after"))
	require.Equal(t, []string{"a: 1", "b: 1", "b: 2"}, heard)
}
