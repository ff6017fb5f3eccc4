package evaluate

import (
	"math"
	"path"
	"strconv"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/kind"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// commonVars are the variables that follow the arguments.
var commonVars = []expr.Var{
	{Name: "pid", Type: expr.Type{Kind: expr.Uint, Size: 4}},
	{Name: "tid", Type: expr.Type{Kind: expr.Uint, Size: 4}},
	{Name: "goroutine", Type: expr.Type{Kind: expr.Uint, Size: 8}},
	{Name: "executable", Type: expr.Type{Kind: expr.String}},
	{Name: "namespace", Type: expr.Type{Kind: expr.String}},
	{Name: "pod", Type: expr.Type{Kind: expr.String}},
	{Name: "container", Type: expr.Type{Kind: expr.String}},
	{Name: "workload", Type: expr.Type{Kind: expr.String}},
	{Name: "node", Type: expr.Type{Kind: expr.String}},
}

// noPod stands for a process that is in no pod.
var noPod recording.Pod

// Variables returns the variables of an expression about a probe's events: the arguments, arg0 and
// so on, and commonVars. A variable that the recording does not have has no name.
func Variables(p *recording.Probe) []expr.Var {
	var named, numbered []expr.Var
	for i, a := range p.Args {
		t := expr.TypeOf(a.Kind, a.Type)
		named = append(named, expr.Var{Name: a.Name, Type: t})
		numbered = append(numbered, expr.Var{Name: "arg" + strconv.Itoa(i), Type: t})
	}
	all := append(append(named, numbered...), commonVars...)
	rest := all[len(all)-len(commonVars):]
	if p.NoThread {
		rest[1].Name = ""
	}
	if p.NoGoroutine {
		rest[2].Name = ""
	}
	return all
}

// Argument returns the name and the type of a probe's i-th argument for display.
func Argument(p *recording.Probe, i int) (name, typ string) {
	a := p.Args[i]
	if row := a.Kind.Row(); row.Unit == kind.Address {
		return a.Name, row.Name
	}
	return a.Name, expr.TypeOf(a.Kind, a.Type).String()
}

// Signature returns the names and the types of a probe's arguments.
func Signature(p *recording.Probe) string {
	var all []string
	for i := range p.Args {
		name, typ := Argument(p, i)
		all = append(all, name+" "+typ)
	}
	return strings.Join(all, ", ")
}

// Variable returns the value of an event's i-th variable, in the order of Variables.
func Variable(e *recording.Event, i int) expr.Value {
	n := len(e.Probe.Args)
	if i >= 2*n {
		return commonVariable(e, i-2*n)
	}
	if i >= n {
		i -= n
	}
	class := e.Probe.Args[i].Kind.Row().Class
	if class == kind.Text {
		return expr.StringValue(string(e.Text(i)))
	}
	return expr.WordValue(class, e.Word(i))
}

// commonVariable returns the value of a variable in the order of commonVars.
func commonVariable(e *recording.Event, i int) expr.Value {
	pod := e.Pod
	if pod == nil {
		pod = &noPod
	}
	switch i {
	case 0:
		return expr.UintValue(uint64(e.PID))
	case 1:
		return expr.UintValue(uint64(e.TID))
	case 2:
		return expr.UintValue(e.Goroutine)
	case 3:
		return expr.StringValue(Executable(e))
	case 4:
		return expr.StringValue(pod.Namespace)
	case 5:
		return expr.StringValue(pod.Name)
	case 6:
		return expr.StringValue(pod.Container)
	case 7:
		return expr.StringValue(pod.Workload)
	}
	return expr.StringValue(pod.Node)
}

// Executable returns the name of the program that fired the event, or "" if it is unknown.
func Executable(e *recording.Event) string {
	if e.Executable == "" {
		return ""
	}
	return path.Base(e.Executable)
}

// Bits returns the bits of a value as the kernel's events have them: a float32 has the bits of a
// float32.
func Bits(t expr.Type, v expr.Value) uint64 {
	if t.Kind == expr.Float && t.Size == 4 {
		return uint64(math.Float32bits(float32(v.Float())))
	}
	return v.Uint()
}
