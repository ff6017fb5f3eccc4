package stapsdt

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

func TestTypedProbesDescribeTheirArguments(t *testing.T) {
	p := newProvider(t, "typed")
	word := Uint64
	if unsafe.Sizeof(uintptr(0)) == 4 {
		word = Uint32
	}
	for _, c := range []struct {
		probe *Probe
		want  []ArgType
	}{
		{&NewProbe0(p, "p0").Probe, nil},
		{&NewProbe1[bool](p, "p1").Probe, []ArgType{Uint8}},
		{&NewProbe2[int8, uint8](p, "p2").Probe, []ArgType{Int8, Uint8}},
		{&NewProbe3[int16, uint16, int32](p, "p3").Probe, []ArgType{Int16, Uint16, Int32}},
		{&NewProbe4[uint32, int64, uint64, int](p, "p4").Probe, []ArgType{Uint32, Int64, Uint64, argTypeOf(reflect.TypeFor[int]())}},
		{&NewProbe5[uint, uintptr, unsafe.Pointer, string, []byte](p, "p5").Probe, []ArgType{word, word, word, String, String}},
		{&NewProbe6[userID, level, path, blob, flag, pointer](p, "p6").Probe, []ArgType{Uint64, Int8, String, String, Uint8, word}},
		{&NewProbe2[float32, float64](p, "f2").Probe, []ArgType{Float32, Float64}},
		{&NewProbe2[ratio, seconds](p, "r2").Probe, []ArgType{Float32, Float64}},
	} {
		require.Equal(t, c.want, c.probe.args)
		require.Same(t, p, c.probe.Provider())
		require.Equal(t, fmt.Sprint(len(c.want)), strings.TrimLeft(c.probe.Name(), "pfr"))
		require.Equal(t, "typed:"+c.probe.Name(), c.probe.String())
	}
	require.Len(t, p.Probes(), 9)
}

func TestTypedDefinitionErrorsWaitForLoad(t *testing.T) {
	p := newProvider(t, "waits")
	bad := NewProbe1[int](p, "not good")
	worse := NewProbe1[string](p, "b:d")
	fine := NewProbe1[string](p, "fine")
	err := p.Load()
	require.ErrorIs(t, err, ErrName)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "not good", e.Probe, "the first is the one that is reported")
	require.False(t, p.Loaded())
	bad.Fire(1)
	worse.FireFunc(func() string { panic("no tracer is attached") })
	fine.Fire("x")
	require.False(t, bad.Enabled())

	NewProbe1[int](p, "b*d")
	require.ErrorAs(t, p.Load(), &e)
	require.Equal(t, "not good", e.Probe, "what is wrong stays wrong")
}

// TestWrongArgumentsDoNotCompile type-checks each program of testdata/wrong.go
// and finds the error that the comment beside it names, and no other.
func TestWrongArgumentsDoNotCompile(t *testing.T) {
	testenv.Long(t, "it type-checks the standard library's source")
	source, err := os.ReadFile("testdata/wrong.txt")
	require.NoError(t, err)
	files := token.NewFileSet()
	t.Setenv("TMPDIR", t.TempDir()) // where the importer leaves what cgo makes
	imported := importer.ForCompiler(files, "source", nil)
	check := func(statement string) error {
		program := "package p\nimport (\"unsafe\"; . \"github.com/go-stapsdt/stapsdt\")\n" +
			"type UserID uint64\nvar _ unsafe.Pointer\n" +
			"func f(p *Provider) {\n" +
			"pair := NewProbe2[string, int32](p, \"pair\")\nuser := NewProbe1[UserID](p, \"user\")\nnone := NewProbe0(p, \"none\")\n" +
			"_, _, _ = pair, user, none\n" + statement + "\n}\n"
		file, err := parser.ParseFile(files, "p.go", program, 0)
		require.NoError(t, err, statement)
		config := types.Config{Importer: imported}
		_, err = config.Check("p", files, []*ast.File{file}, nil)
		return err
	}
	cases := 0
	for _, line := range strings.Split(string(source), "\n") {
		statement, want, found := strings.Cut(line, " // ")
		if !found {
			continue
		}
		cases++
		err := check(statement)
		if want == "ok" {
			require.NoError(t, err, statement)
			continue
		}
		require.Error(t, err, statement)
		require.Regexp(t, regexp.QuoteMeta(want), err.Error(), statement)
	}
	require.Greater(t, cases, 15)
}
