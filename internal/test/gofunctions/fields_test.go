//go:build linux && (amd64 || arm64)

package gofunctions

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fieldNames are the expressions that the tests ask for, of a pointer to a struct and of a pointer in a struct.
var fieldNames = []string{
	"req.N", "req.Path", "req.OK", "len(req.L)", "req.E", "req.P", "req.F", "req.In.A", "req.In.S", "req.In.B", "req.Raw",
	"h.X", "h.R.N", "h.R.Path", "len(h.R.L)", "h.R.In.S", "h.R.Raw",
}

// structGenerator writes a program whose functions take pointers to structs. Each struct has the same names,
// and other types at other offsets.
type structGenerator struct {
	*generator
	types strings.Builder
}

// structure declares the structs of a function: those with the fields, and the holder of a pointer to one.
func (g *structGenerator) structure(i int) {
	pick := func(all ...string) string { return all[g.IntN(len(all))] }
	fields := []string{
		"N " + pick("int", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "Number"),
		"Path " + pick("string", "Text"),
		"OK bool",
		"Raw " + pick("[]byte", "Octets", "[7]byte", "Digest"),
		"L []" + pick("int", "string", "byte", "Big"),
		"E " + pick("error", "any", "fmt.Stringer"),
		"P " + pick("*int", "*Small", "map[string]int", "chan int", "func()", "unsafe.Pointer"),
		"F " + pick("float32", "float64"),
		fmt.Sprintf("In struct{ A int8; _ %s; S string; B uint16 }", pick("int8", "int64", "[3]int16", "complex128")),
	}
	for n := range g.IntN(6) {
		fields = append(fields, fmt.Sprintf("pad%d %s", n, pick("int8", "int32", "string", "[5]byte", "Mixed", "Big", "complex64", "[0]int")))
	}
	g.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	fmt.Fprintf(&g.types, "\ntype R%d struct {\n\t%s\n}\n\ntype H%d struct { X int8; R *R%d }\n", i, strings.Join(fields, "\n\t"), i, i)
}

// filled returns a pointer to a struct with values, or nil.
func (g *structGenerator) filled(i int) string {
	if g.IntN(8) == 0 {
		return fmt.Sprintf("(*R%d)(nil)", i)
	}
	in := fmt.Sprintf("r.In.A, r.In.S, r.In.B = %s, %s, %s", g.integer(8), g.text(), g.unsigned(16))
	return fmt.Sprintf(`func() *R%d {
		r := &R%d{}
		put(&r.N, %d)
		r.Path, r.OK = %s, %t
		put(&r.L, %d)
		put(&r.E, %d)
		put(&r.P, 0)
		fill(reflect.ValueOf(&r.Raw).Elem(), %s)
		r.F, %s
		return heap(r)
	}()`, i, i, g.IntN(250)-120, []string{`"hit"`, `"hit"`, `"hit "`, `""`, g.text()}[g.IntN(5)], g.IntN(2) == 0, g.IntN(5), g.IntN(4), g.bytes(), strings.Replace(in, " = ", " = -2.25, ", 1))
}

// resultNames are the expressions that the tests ask for of a result.
var resultNames = []string{"out.N", "out.Path", "len(out.L)", "out.E", "out.In.B", "out.Raw"}

// fieldHelpers set fields whose types are not known.
const fieldHelpers = `
// put sets a field to a value that depends on a number.
func put(to any, n int) {
	v := reflect.ValueOf(to).Elem()
	switch v.Kind() {
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), n, n+2))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Chan:
		v.Set(reflect.MakeChan(v.Type(), 0))
	case reflect.Interface:
		for _, one := range []any{Failure{1}, &Failure{1}, Number(3)}[n:] {
			if reflect.TypeOf(one).AssignableTo(v.Type()) {
				v.Set(reflect.ValueOf(one))
				return
			}
		}
	default:
		if v.CanInt() {
			v.SetInt(int64(n))
		} else if v.CanUint() {
			v.SetUint(uint64(n))
		}
	}
}

// fill sets bytes to the beginning of a text, as far as they have room.
func fill(v reflect.Value, text string) {
	if v.Kind() == reflect.Slice {
		v.Set(reflect.MakeSlice(v.Type(), len(text), len(text)+1))
	}
	for i := range min(v.Len(), len(text)) {
		v.Index(i).SetUint(uint64(text[i]))
	}
}

// follow returns a pointer for say, unless it is nil.
func follow[T any](name string, p *T) []any {
	if p == nil {
		return nil
	}
	return []any{name, p}
}

const fields = true
`

// structProgram returns the source of a program with functions that take pointers to structs.
func structProgram(seed uint64, functions int) string {
	g := &structGenerator{generator: &generator{Rand: rand.New(rand.NewPCG(seed, 2))}}
	var calls strings.Builder
	for i := range functions {
		name := fmt.Sprintf("Z%d", i)
		g.structure(i)
		fmt.Fprintf(&g.functions, "\n//go:noinline\nfunc %s(req *R%d, h H%d) (out *R%d) { count += grow(%d); return h.R }\n", name, i, i, i, g.IntN(30))
		fmt.Fprintf(&g.functions, `
//go:noinline
func call%[1]s() {
	req, h := %[2]s, H%[3]d{X: %[4]s, R: %[5]s}
	say("main.%[1]s", append(append(follow("req", req), follow("h.R", h.R)...), "h", &h)...)
	out := %[1]s(req, h)
	say("main.%[1]s:return", follow("out", out)...)
}
`, name, g.filled(i), i, g.integer(8), g.filled(i))
		fmt.Fprintf(&calls, "\tcall%s()\n", name)
	}
	return preamble + fieldHelpers + g.types.String() + g.functions.String() + "\nfunc calls() {\n" + calls.String() + "}\n"
}

// divide divides what a program has said into calls and returns with the fields that the tests ask for, which are
// nil where a pointer is.
func divide(said map[string]call) (calls, returns map[string]call) {
	calls, returns = map[string]call{}, map[string]call{}
	for name, c := range said {
		to, fields := calls, fieldNames
		if strings.HasSuffix(name, ":return") {
			to, fields = returns, resultNames
		}
		args := map[string]any{}
		for _, field := range fields {
			args[field] = c.Args[field]
		}
		to[name] = call{c.Probe, args}
	}
	return calls, returns
}

// TestFields: what expressions name of the structs to which arguments point is what the program has there.
func TestFields(t *testing.T) {
	testenv.NeedsRoot(t)
	for _, c := range []struct {
		name      string
		long      bool
		functions int
		flags     []string
	}{
		{"plain", false, 60, nil},
		{"many", true, 250, nil},
		{"unoptimized", true, 60, []string{"-gcflags=all=-N -l"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.long {
				testenv.Long(t, "it builds a program and traces all of its functions")
			}
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			path := build(t, structProgram(seed, c.functions), nil, c.flags...)
			t.Run("show", func(t *testing.T) {
				said, traced := trace(t, path, []string{"go:main.Z*"}, "--show", strings.Join(fieldNames, ","))
				calls, _ := divide(said)
				requireSame(t, calls, traced)
			})
			t.Run("results", func(t *testing.T) { requireResults(t, path) })
			t.Run("where", func(t *testing.T) { requireSelected(t, path) })
			t.Run("keys", func(t *testing.T) { requireKeys(t, path) })
		})
	}
}

// requireSelected compares the calls for which conditions about fields are true with those that a command shows.
func requireSelected(t *testing.T, path string) {
	all, traced := trace(t, path, []string{"go:main.Z*"}, "--show", strings.Join(fieldNames, ","), "-w", `req.Path == "hit" && req.N > 5 && len(h.R.L) < 9`)
	said, _ := divide(all)
	for name, c := range said {
		n, ok := c.Args["req.N"].(json.Number)
		if ok {
			value, err := n.Int64()
			ok = err != nil || value > 5 // a large unsigned number is no int64
		}
		if !ok || c.Args["req.Path"] != "hit" || c.Args["len(h.R.L)"] == nil {
			delete(said, name)
		}
	}
	require.NotEmpty(t, said)
	requireSame(t, said, traced)
}

// requireResults compares what expressions name of the structs to which results point.
func requireResults(t *testing.T, path string) {
	said, traced := trace(t, path, []string{"go:main.Z*:return"}, "--show", strings.Join(resultNames, ","))
	_, returns := divide(said)
	requireSame(t, returns, traced)
}

// requireKeys compares the fields of each call with the keys by which count tells calls apart.
func requireKeys(t *testing.T, path string) {
	s := launch(t, path)
	c := s.command([]string{"go:main.Z*"}, "count", "-o", "json", "--by", "req.Path,req.N,len(h.R.L),req.Raw", "go:main.Z*")
	s.Say("")
	s.Expect("done", testenv.Patience)
	counted := map[string]map[string]any{}
	for _, r := range rows(t, stop(t, c)) {
		require.Equal(t, 1, r.Count)
		counted[r.Probe] = r.By
	}
	keys := 0
	for _, line := range s.Lines() {
		if line == "done" {
			break
		}
		said := decode(t, line)
		if strings.HasSuffix(said.Probe, ":return") {
			continue
		}
		if said.Args["req.N"] == nil || said.Args["h.R.N"] == nil {
			assert.NotContains(t, counted, said.Probe, "one pointer is nil")
			continue
		}
		keys++
		got := counted[said.Probe]
		// A key ends at its first NUL.
		text, _, _ := strings.Cut(said.Args["req.Path"].(string), "\x00")
		assert.Equal(t, map[string]any{"req.Path": text, "req.N": said.Args["req.N"], "len(h.R.L)": said.Args["len(h.R.L)"], "req.Raw": said.Args["req.Raw"]}, got, said.Probe)
	}
	require.NotZero(t, keys)
	require.Len(t, counted, keys)
}
