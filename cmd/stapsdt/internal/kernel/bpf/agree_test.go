//go:build linux

package bpf_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/bpf"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
	"github.com/go-stapsdt/stapsdt/internal/recording/recorder"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// evaluation is a random expression and the event for which it is evaluated.
type evaluation struct {
	src    string
	values []expr.Value
}

// outcome is what an expression is, or that it divides by zero.
type outcome struct {
	bits  uint64
	fault bool
}

// TestExpressionsAgree: random expressions about random events are the same in the kernel, for the reader of a
// recording and as compiled Go. EXPRESSIONS is how many there are.
func TestExpressionsAgree(t *testing.T) {
	run := bpf.InKernel(t)
	r := rand.New(rand.NewPCG(1, 2))
	n := 2000
	if testing.Short() {
		n = 300
	}
	if text := os.Getenv("EXPRESSIONS"); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	all := make([]evaluation, n)
	for i := range all {
		all[i].src = bpf.RandomExpression(r, i%2 == 0)
		all[i].values = bpf.RandomValues(r)
	}
	fromRecording := inRecording(t, all)
	faults := 0
	for i, e := range all {
		var kernel outcome
		if kernel.bits, kernel.fault = run(e.src, e.values); kernel.fault {
			kernel.bits = 0
			faults++
		}
		require.Equal(t, kernel, fromRecording[i], "%s, with %v", e.src, e.values)
	}
	require.Positive(t, faults)
	require.Less(t, faults, n/2)
	if testing.Short() {
		return
	}
	agreed := 0
	for i, compiled := range inGo(t, all) {
		if compiled != nil {
			require.Equal(t, *compiled, fromRecording[i], "%s, with %v", all[i].src, all[i].values)
			agreed++
		}
	}
	t.Logf("%d expressions: all agree in the kernel and for the reader, with %d faults, and %d in Go", n, faults, agreed)
	require.Greater(t, agreed, n/3)
}

// inRecording evaluates expressions for the events of a recording.
func inRecording(t *testing.T, all []evaluation) (outcomes []outcome) {
	names, types := bpf.Sample()
	p := &recording.Probe{Provider: "p", Name: "sample"}
	for i, name := range names {
		a := recording.Arg{Name: name, Type: int8(types[i].Size), Kind: kind.Uint64}
		switch types[i].Kind {
		case expr.Int:
			a.Type, a.Kind = -a.Type, kind.Int64
		case expr.Float:
			a.Type, a.Kind = a.Type+32, kind.Float64
		case expr.Bool:
			a.Kind = kind.Bool
		case expr.String:
			a.Type, a.Kind = kind.TypeString, kind.String
		}
		p.Args = append(p.Args, a)
	}
	const chunks = 256
	w := recorder.New(make([]byte, recorder.Size(chunks)), chunks, recorder.Options{Foreign: true})
	number, ok := w.AddProbe(p)
	require.True(t, ok)
	for i, e := range all {
		var words []uint64
		var texts []string
		for j, v := range e.values {
			switch {
			case types[j].Kind == expr.String:
				words, texts = append(words, uint64(len(v.Text()))), append(texts, v.Text())
			case types[j].Kind == expr.Float && types[j].Size == 4:
				words = append(words, uint64(math.Float32bits(float32(v.Float()))))
			default:
				words = append(words, v.Uint())
			}
		}
		w.AppendForeign(number, uint64(i), 1, 1, words, texts)
	}
	reader, err := recording.NewReader(w)
	require.NoError(t, err)
	_, err = reader.More()
	require.NoError(t, err)
	require.Zero(t, reader.Lost())
	evaluator := evaluate.NewEvaluator(reader.Probes()[0])
	for _, one := range all {
		event, err := reader.Next()
		require.NoError(t, err)
		evaluator.At(event)
		parsed, err := evaluator.Parse(one.src)
		require.NoError(t, err)
		bits, fault := evaluator.Number(parsed)
		if fault {
			bits = 0
		}
		outcomes = append(outcomes, outcome{bits, fault})
	}
	_, err = reader.Next()
	require.Equal(t, io.EOF, err)
	return outcomes
}

// inGo evaluates expressions by a program that the Go compiler makes of them. The outcome is nil for those that
// are no Go, because they mix integers of several types.
func inGo(t *testing.T, all []evaluation) (outcomes []*outcome) {
	goTool := testenv.NeedsTool(t, "go", "golang")
	names, kinds := bpf.Sample()
	var b strings.Builder
	b.WriteString(`package main

import (
	"fmt"
	"math"
	"reflect"
	"strings"
)

var _, _ = strings.Contains, math.Pi

func try(f func() any) {
	defer func() {
		if recover() != nil {
			fmt.Println("fault")
		}
	}()
	switch v := reflect.ValueOf(f()); {
	case v.Kind() == reflect.Bool && v.Bool():
		fmt.Println(1)
	case v.Kind() == reflect.Bool:
		fmt.Println(0)
	case v.CanInt():
		fmt.Println(uint64(v.Int()))
	default:
		fmt.Println(v.Uint())
	}
}

`)
	for i, name := range names {
		fmt.Fprintf(&b, "var %s %s\n", name, goType(kinds[i]))
	}
	isGo := goChecker(t, b.String()+"func main() {}\n")
	var accepted []int
	for i, e := range all {
		if !isGo(e.src) {
			continue
		}
		accepted = append(accepted, i)
		fmt.Fprintf(&b, "\nfunc evaluate%d() {\n", i)
		for j, v := range e.values {
			switch t := kinds[j]; t.Kind {
			case expr.String:
				fmt.Fprintf(&b, "\t%s = %q\n", names[j], v.Text())
			case expr.Float:
				fmt.Fprintf(&b, "\t%s = %s(math.Float64frombits(%d))\n", names[j], goType(t), math.Float64bits(v.Float()))
			case expr.Bool:
				fmt.Fprintf(&b, "\t%s = %v\n", names[j], v.Bool())
			case expr.Int:
				fmt.Fprintf(&b, "\t%s = %d\n", names[j], v.Int())
			default:
				fmt.Fprintf(&b, "\t%s = %d\n", names[j], v.Uint())
			}
		}
		fmt.Fprintf(&b, "\ttry(func() any { return %s })\n}\n", e.src)
	}
	b.WriteString("\nfunc main() {\n")
	for _, i := range accepted {
		fmt.Fprintf(&b, "\tevaluate%d()\n", i)
	}
	b.WriteString("}\n")
	file := filepath.Join(t.TempDir(), "main.go")
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	cmd := exec.Command(goTool, "run", file)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	outcomes = make([]*outcome, len(all))
	lines := strings.Fields(string(out))
	require.Len(t, lines, len(accepted))
	for i, line := range lines {
		bits, err := strconv.ParseUint(line, 10, 64)
		require.True(t, err == nil || line == "fault", line)
		outcomes[accepted[i]] = &outcome{bits, line == "fault"}
	}
	return outcomes
}

// goChecker returns a function that reports whether an expression means the same in a program's main.
func goChecker(t *testing.T, program string) func(src string) bool {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "main.go", program, 0)
	require.NoError(t, err)
	config := types.Config{Importer: importer.ForCompiler(fset, "source", nil)}
	pkg, err := config.Check("main", fset, []*ast.File{file}, nil)
	require.NoError(t, err)
	inMain := file.End() - 2 // sees the file's imports
	return func(src string) bool {
		e, err := parser.ParseExprFrom(fset, "", src, 0)
		require.NoError(t, err)
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		if types.CheckExpr(fset, pkg, inMain, e, info) != nil {
			return false
		}
		// A constant that a variable shifts is an int64 here, as docs/command.md says, and in Go of the type
		// that it would have without the shift.
		same := true
		ast.Inspect(e, func(n ast.Node) bool {
			if b, ok := n.(*ast.BinaryExpr); ok && (b.Op == token.SHL || b.Op == token.SHR) {
				same = same && (info.Types[b.X].Value == nil || info.Types[b.Y].Value != nil)
			}
			return same
		})
		return same
	}
}

func goType(t expr.Type) string {
	switch t.Kind {
	case expr.String:
		return "string"
	case expr.Bool:
		return "bool"
	case expr.Float:
		return fmt.Sprint("float", 8*t.Size)
	case expr.Int:
		return fmt.Sprint("int", 8*t.Size)
	}
	return fmt.Sprint("uint", 8*t.Size)
}
