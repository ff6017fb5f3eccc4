//go:build linux && (amd64 || arm64)

package process

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/tracetest"
	"github.com/go-stapsdt/stapsdt/internal/test/values"
	"github.com/go-stapsdt/stapsdt/internal/testenv"

	"github.com/stretchr/testify/require"
)

// arg returns an argument of a sample, decoded by the note.
func (p tracedProbe) arg(t testing.TB, s tracetest.Sample, i int) uint64 {
	t.Helper()
	word, err := s.Arg(p.note.Args[i])
	require.NoError(t, err)
	return word
}

// order is what a test asks its child to do.
type order struct {
	Op       string // "add", "load", "unload", "fire" or "repeat"
	Provider string
	Memfd    bool
	Probe    string
	Point    int // which of the sites of that name
	Types    []stapsdt.ArgType
	Args     []arg
	Times    int
}

// arg is a value that survives JSON.
type arg struct {
	Word uint64
	Type stapsdt.ArgType
	Text []byte
}

func (a arg) value() any {
	switch a.Type {
	case stapsdt.String:
		return string(a.Text)
	case stapsdt.Int8, stapsdt.Int16, stapsdt.Int32, stapsdt.Int64:
		return int64(a.Word)
	}
	return a.Word
}

// probesChild does what the test says, an order a line, and answers each.
func probesChild([]string) {
	providers := map[string]*stapsdt.Provider{}
	answer := func(err error, text string) {
		if err != nil {
			fmt.Println("error", err)
		} else {
			fmt.Println("ok", text)
		}
	}
	tracetest.EachLine(func(line string) {
		var o order
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			panic(err)
		}
		p := providers[o.Provider]
		switch o.Op {
		case "add":
			if p == nil {
				var opts []stapsdt.Option
				if o.Memfd {
					opts = append(opts, stapsdt.WithMemfd())
				}
				p = stapsdt.NewProvider(o.Provider, opts...)
				providers[o.Provider] = p
			}
			_, err := p.AddProbe(o.Probe, o.Types...)
			answer(err, "")
		case "load":
			err := p.Load()
			answer(err, p.Path())
		case "unload":
			answer(p.Unload(), "")
		case "fire":
			answer(fire(p, o), "")
		case "repeat":
			var err error
			for range o.Times {
				err = fire(p, o)
			}
			answer(err, "")
		}
	})
}

func fire(p *stapsdt.Provider, o order) error {
	args := make([]any, len(o.Args))
	for i, a := range o.Args {
		args[i] = a.value()
	}
	point := 0
	for _, probe := range p.Probes() {
		if probe.Name() != o.Probe {
			continue
		}
		if point == o.Point {
			return probe.Fire(args...)
		}
		point++
	}
	return fmt.Errorf("no probe %s", o.Probe)
}

// child is a process that has probes.
type child struct {
	*tracetest.Process
	t *testing.T
}

func startChild(t *testing.T, env ...string) *child {
	t.Helper()
	env = append(env, "STAPSDT_DIR="+t.TempDir()+"/images")
	return &child{tracetest.Child(t, "probes", tracetest.WithEnv(env...)), t}
}

// do gives an order and returns what the child answers to it.
func (c *child) do(o order) string {
	c.t.Helper()
	line, err := json.Marshal(o)
	require.NoError(c.t, err)
	c.Say(string(line))
	return c.Expect("ok", testenv.Patience)
}

func ints(typ stapsdt.ArgType, list ...any) []arg {
	args := make([]arg, len(list))
	for i, v := range list {
		args[i] = arg{Type: typ, Word: values.Word(v)}
	}
	return args
}

func (c *child) pid() string { return strconv.Itoa(c.PID()) }
