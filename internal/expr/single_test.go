package expr

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOfWord: an operation on an integer and a constant has the value that its tree has. Others have no Variable.
func TestOfWord(t *testing.T) {
	tried := 0
	for i, variable := range variables {
		for _, op := range []string{"==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&", "|", "^", "&^"} {
			for _, constant := range []string{"-128", "-1", "0", "1", "3", "8", "100", "127", "255", "1<<63 - 1", "1<<64 - 1"} {
				src := fmt.Sprintf("%s %s (%s)", variable.name, op, constant)
				vars := make([]Var, i+1)
				vars[i] = Var{Name: variable.name, Type: variable.typ}
				e, err := Parse(src, vars)
				if err != nil {
					continue
				}
				if e.Variable() < 0 {
					require.True(t, !variable.typ.IsInteger() || constant == "0", src)
					continue
				}
				require.Equal(t, i, e.Variable())
				for _, text := range variable.values {
					word := parse(t, variable.typ, text)
					want, fault := e.Eval(func(int) Value { return word })
					require.False(t, fault)
					require.Equal(t, want.Uint(), e.OfWord(word.Uint()), "%s of %s", src, text)
					tried++
				}
			}
		}
	}
	require.Greater(t, tried, 1000)
	vars := []Var{{Name: "n", Type: Type{Kind: Int, Size: 8}}, {Name: "m", Type: Type{Kind: Int, Size: 8}}}
	for _, src := range []string{"n + m", "-n", "1 - n", "n / 0", "n << 2", "n + 1 > 2", "n > 1 && n < 3", "n > 1.5", "1 + 1"} {
		if e, err := Parse(src, vars); err == nil {
			require.Equal(t, -1, e.Variable(), src)
		}
	}
	e, err := Parse("m", vars)
	require.NoError(t, err)
	require.Equal(t, 1, e.Variable())
	require.EqualValues(t, 7, e.OfWord(7))
}
