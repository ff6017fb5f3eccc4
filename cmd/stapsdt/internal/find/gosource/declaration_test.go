package gosource

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// state describes a declaration in a word or two.
func state(d *Declaration) string {
	var all []string
	if d.Loop {
		all = append(all, "loop")
	}
	if d.Assigned {
		all = append(all, "assigned")
	}
	for _, part := range slices.Sorted(maps.Keys(d.Changed)) {
		all = append(all, "changed"+string(part))
	}
	for _, part := range slices.Sorted(maps.Keys(d.Selected)) {
		all = append(all, "selected"+string(part))
	}
	return strings.Join(all, " ")
}

// TestDeclarations: each way to assign to a variable, or to a part of it, is seen.
func TestDeclarations(t *testing.T) {
	for body, want := range map[string]map[string]string{
		"a := 1; _ = a":                                 {"a": ""},
		"a := 1; a = 2":                                 {"a": "assigned"},
		"a := 1; a += 2":                                {"a": "assigned"},
		"a := 1; a++":                                   {"a": "assigned"},
		"a := 1; p := &a; _ = p":                        {"a": "assigned", "p": ""},
		"a, b := 1, 2; a, c := b, 3; _ = c":             {"a": "assigned", "b": "", "c": ""},
		"a := 1; { a := 2; a++; _ = a }":                {"a": "assigned"}, // two on one line
		"a := 1\n{\na := 2\na++\n_ = a\n}":              {"a": ""},
		"var a int; _ = a":                              {"a": ""},
		"var a, b = 1, 2; b = a":                        {"a": "", "b": "assigned"},
		"a := 1; func() { a = 2 }()":                    {"a": "assigned"},
		"a := 1; func(b int) { _ = a + b }(2)":          {"a": "", "b": ""},
		"func() (b int) { return 2 }()":                 {"b": "assigned"},
		"for i := range 3 { _ = i }":                    {"i": "loop"},
		"for i := 0; i < 3; i++ { }":                    {"i": "assigned"},
		"var i int; for i = range 3 { }":                {"i": "assigned"},
		"var e [3]int; e[1] = 2":                        {"e": "changed.[]"},
		"var e [3]int; p := &e[1]; _ = p":               {"e": "changed.[]", "p": ""},
		"var e [3]int; s := e[:]; _ = s":                {"e": "changed.[]", "s": ""},
		"var s T; s.A = 1":                              {"s": "changed.A selected.A"},
		"var s T; s.A.B++":                              {"s": "changed.A.B selected.A selected.A.B"},
		"var s T; (s).A[2].B = 1":                       {"s": "changed.A.[].B selected.A selected.A.[].B"},
		"var s T; s.Method()":                           {"s": "selected.Method"},
		"var s T; f := s.Method; _ = f":                 {"f": "", "s": "selected.Method"},
		"switch v := any(1).(type) { case int: _ = v }": {"v": ""},
		"switch v := any(1).(type) { case int: v = 2 }": {"v": "assigned"},
		"if a := 1; a > 0 { a = 2 }":                    {"a": "assigned"},
		"select { case a := <-make(chan int): _ = a }":  {"a": ""},
		"type F func(q int)":                            {},
	} {
		f, err := Parse([]byte("package p\nfunc f() {\n" + body + "\n}\n"))
		require.NoError(t, err, body)
		got := map[string]string{}
		for _, name := range []string{"a", "b", "c", "e", "f", "i", "p", "q", "s", "v"} {
			if d := f.Find(name, 3); d != nil {
				got[name] = state(d)
			}
		}
		require.Equal(t, want, got, body)
	}
}

// TestParameters: they are variables, and results are assigned to by returns.
func TestParameters(t *testing.T) {
	f, err := Parse([]byte("package p\nfunc (r *T) f(a int, b ...string) (n int, err error) {\n\ta = 2\n\treturn 0, nil\n}\n"))
	require.NoError(t, err)
	got := map[string]string{}
	for _, name := range []string{"r", "a", "b", "n", "err"} {
		got[name] = state(f.Find(name, 2))
	}
	require.Equal(t, map[string]string{"r": "", "a": "assigned", "b": "", "n": "assigned", "err": "assigned"}, got)
	require.Equal(t, 5, f.Lines())
}

// TestVisible: a name stands for the innermost variable that was declared before a line.
func TestVisible(t *testing.T) {
	f, err := Parse([]byte(`package p

func f(a int) { // 3
	b := 1
	_ = b
	if a := 2; a > 1 { // 6
		b := call(
			a,
			b) // 9
		_ = b
		a := 3 // 11
		_ = a
	}
	_ = a // 14
	for a := range 3 {
		_ = a
	}
	_ = func(b int) int { // 18
		return b
	}
	_ = a // 21
}

func g(c int) {
	_ = c
}
`))
	require.NoError(t, err)
	for where, want := range map[string]int{
		"a 2": 0, "a 3": 3, "a 5": 3, "a 6": 3, "a 7": 6, "a 11": 6, "a 12": 11, "a 13": 11, "a 14": 3, "a 15": 3, "a 16": 15, "a 18": 3, "a 21": 3, "a 22": 3, "a 24": 0,
		"b 4": 0, "b 5": 4, "b 7": 4, "b 9": 4, "b 10": 7, "b 14": 4, "b 19": 18, "b 21": 4, "c 24": 24, "c 21": 0,
	} {
		var name string
		var line, got int
		_, err := fmt.Sscan(where, &name, &line)
		require.NoError(t, err)
		if d := f.Visible(name, line); d != nil {
			got = d.Line
		}
		require.Equal(t, want, got, where)
	}
}

// TestNames: the names are those of the innermost function.
func TestNames(t *testing.T) {
	f, err := Parse([]byte("package p\nfunc f(a int) (err error) {\n\tb, _ := 1, 2\n\t_ = func(c int) {\n\t\td := b\n\t\t_ = d\n\t}\n\te := 2\n\t_ = e\n}\nvar _ = 1\n"))
	require.NoError(t, err)
	for line, want := range map[int][]string{3: {"a", "err"}, 5: {"c"}, 6: {"c", "d"}, 8: {"a", "err", "b"}, 9: {"a", "err", "b", "e"}, 11: nil} {
		require.Equal(t, want, f.Names(line), line)
	}
}

// TestClauses: each clause of a type switch has a variable of its own, at its line.
func TestClauses(t *testing.T) {
	f, err := Parse([]byte("package p\nfunc f(a any) {\n\tswitch v := a.(type) {\n\tcase int,\n\t\tuint:\n\t\t_ = v\n\tcase string:\n\t\tv = \"\"\n\t}\n}\n"))
	require.NoError(t, err)
	for line, want := range map[int]int{4: 3, 6: 4, 8: 7} {
		require.Equal(t, want, f.Visible("v", line).Line, line)
	}
	require.Equal(t, "assigned", state(f.Find("v", 4)))
	require.True(t, f.Contains(3, 9))
	require.False(t, f.Contains(3, 12))
	require.False(t, f.Contains(12, 3))
}

// FuzzParse: no source makes it fail.
func FuzzParse(f *testing.F) {
	f.Add([]byte("package p\nfunc f(a int) (b int) {\n\tfor i, v := range x { a, c := v.f[i], &b; c++ }\n\tswitch v := a.(type) { case int: v.g() }\n}\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		file, err := Parse(src)
		if err != nil {
			return
		}
		for key, d := range file.variables {
			require.Same(t, d, file.Find(key.name, key.line))
			_ = file.Visible(key.name, key.line+1)
		}
	})
}
