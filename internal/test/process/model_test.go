//go:build linux && (amd64 || arm64)

package process

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/sdt"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// modelNames are the names that a sequence chooses from. The last ones are bad.
var modelNames = []string{"event", "other-event", "a.b", "..", "ünï", strings.Repeat("x", stapsdt.MaxName), "", "a:b", "a/b", "nul\x00", strings.Repeat("x", stapsdt.MaxName+1)}

const badNames = 6 // the index of the first

var modelTypes = []stapsdt.ArgType{stapsdt.Uint8, stapsdt.Int8, stapsdt.Uint16, stapsdt.Int16, stapsdt.Uint32, stapsdt.Int32, stapsdt.Uint64, stapsdt.Int64, stapsdt.String, 0, 3}

const badTypes = 9

// program is a sequence of calls, made of bytes.
type program struct{ bytes []byte }

func (p *program) next(below int) int {
	if len(p.bytes) == 0 {
		return 0
	}
	b := p.bytes[0]
	p.bytes = p.bytes[1:]
	return int(b) % below
}

// choose is next for a list whose first ones are good, and are chosen more often.
func (p *program) choose(good, all int) int {
	i := p.next(8*good + all - good)
	if i >= 8*good {
		return i - 7*good
	}
	return i % good
}

func (p *program) name() int { return p.choose(badNames, len(modelNames)) }

func (p *program) types() (types []stapsdt.ArgType) {
	for range p.choose(stapsdt.MaxArgs+1, stapsdt.MaxArgs+2) {
		types = append(types, modelTypes[p.choose(badTypes, len(modelTypes))])
	}
	return types
}

// defined is a probe that the model has.
type defined struct {
	name string
	args []stapsdt.ArgType
}

// model is what a provider is, by its documentation.
type model struct {
	t              *testing.T
	p              *stapsdt.Provider
	dir            string
	memfd          bool
	nameErr        bool
	probes         []defined
	live           int   // how many of probes were there at the last load
	typedErr       error // a sentinel, of the first definition that waits for Load
	loaded, closed bool
	// all are the probes that were ever returned, those that could not be
	// added too.
	all []*stapsdt.Probe
}

func newModel(t *testing.T, in *program) *model {
	name := in.name()
	m := &model{t: t, dir: filepath.Join(t.TempDir(), "images"), nameErr: name >= badNames, memfd: in.next(2) == 1}
	opts := []stapsdt.Option{stapsdt.WithDir(m.dir)}
	if m.memfd {
		opts = append(opts, stapsdt.WithMemfd())
	}
	m.p = stapsdt.NewProvider(modelNames[name], opts...)
	require.Equal(t, modelNames[name], m.p.Name())
	return m
}

// definition returns the sentinel that a definition fails with, or nil.
func (m *model) definition(name int, args []stapsdt.ArgType) error {
	switch {
	case m.closed:
		return stapsdt.ErrClosed
	case name >= badNames:
		return stapsdt.ErrName
	case len(args) > stapsdt.MaxArgs:
		return stapsdt.ErrTooManyArgs
	}
	for _, arg := range args {
		if slices.Index(modelTypes, arg) >= badTypes {
			return stapsdt.ErrArgType
		}
	}
	for _, d := range m.probes {
		if d.name == modelNames[name] && !slices.Equal(d.args, args) {
			return stapsdt.ErrConflict
		}
	}
	return nil
}

// requireError compares an error with the sentinel that it should wrap.
func (m *model) requireError(want, err error) {
	m.t.Helper()
	if want == nil {
		require.NoError(m.t, err)
		return
	}
	require.ErrorIs(m.t, err, want)
	requireOneLine(m.t, err)
}

// calls are what a sequence is made of.
var modelCalls = []func(m *model, in *program){
	(*model).addProbe, (*model).addTyped, (*model).load, (*model).unload, (*model).close,
	(*model).fire, (*model).fire, (*model).load, (*model).unload,
}

func (m *model) addProbe(in *program) {
	name, args := in.name(), in.types()
	want := m.definition(name, args)
	probe, err := m.p.AddProbe(modelNames[name], args...)
	m.requireError(want, err)
	m.added(want, probe, name, args)
}

func (m *model) added(failure error, probe *stapsdt.Probe, name int, args []stapsdt.ArgType) {
	require.NotNil(m.t, probe)
	require.Equal(m.t, modelNames[name], probe.Name())
	require.Same(m.t, m.p, probe.Provider())
	m.requireTypes(args, probe)
	m.all = append(m.all, probe)
	if failure == nil {
		m.probes = append(m.probes, defined{modelNames[name], args})
	}
}

// requireTypes compares the types of a probe's arguments.
func (m *model) requireTypes(want []stapsdt.ArgType, probe *stapsdt.Probe) {
	m.t.Helper()
	args := probe.Args()
	require.Len(m.t, args, min(len(want), stapsdt.MaxArgs))
	for i, arg := range args {
		require.Equal(m.t, want[i], arg.Type)
	}
}

func (m *model) addTyped(in *program) {
	name := in.name()
	kind := in.next(4)
	if in.next(8) > 0 {
		// A wrong definition spoils all later loads: not too often.
		name = kind
	}
	var args []stapsdt.ArgType
	var probe *stapsdt.Probe
	var want error
	define := func(types ...stapsdt.ArgType) string {
		args = types
		want = m.definition(name, types)
		return modelNames[name]
	}
	switch kind {
	case 0:
		probe = &stapsdt.NewProbe0(m.p, define()).Probe
	case 1:
		probe = &stapsdt.NewProbe1[string](m.p, define(stapsdt.String)).Probe
	case 2:
		probe = &stapsdt.NewProbe2[int8, bool](m.p, define(stapsdt.Int8, stapsdt.Uint8)).Probe
	case 3:
		probe = &stapsdt.NewProbe6[int, uint16, []byte, int32, uintptr, int16](m.p, define(stapsdt.Int64, stapsdt.Uint16, stapsdt.String, stapsdt.Int32, stapsdt.Uint64, stapsdt.Int16)).Probe
	}
	m.typedErr = cmp.Or(m.typedErr, want)
	m.added(want, probe, name, args)
}

func (m *model) load(*program) {
	var want error
	switch {
	case m.closed:
		want = stapsdt.ErrClosed
	case m.loaded:
		want = stapsdt.ErrLoaded
	case m.nameErr:
		want = stapsdt.ErrName
	case m.typedErr != nil:
		want = m.typedErr
	default:
		m.loaded, m.live = true, len(m.probes)
	}
	m.requireError(want, m.p.Load())
}

func (m *model) unload(*program) {
	require.NoError(m.t, m.p.Unload())
	m.loaded = false
}

func (m *model) close(in *program) {
	if in.next(4) != 0 { // or most of a sequence would be about nothing
		return
	}
	require.NoError(m.t, m.p.Close())
	m.loaded, m.closed = false, true
}

// fire fires any probe, with any arguments: no tracer is attached.
func (m *model) fire(in *program) {
	if len(m.all) == 0 {
		return
	}
	probe := m.all[in.next(len(m.all))]
	args := make([]any, in.next(4))
	for i := range args {
		args[i] = []any{1, -1, "text", nil, 1 << 40, []byte("bytes"), 1.5, struct{}{}}[in.next(8)]
	}
	require.NoError(m.t, probe.Fire(args...))
}

// check compares all that can be asked.
func (m *model) check() {
	t := m.t
	t.Helper()
	require.Equal(t, m.loaded, m.p.Loaded())
	probes := m.p.Probes()
	require.Len(t, probes, len(m.probes))
	for i, d := range m.probes {
		require.Equal(t, d.name, probes[i].Name())
		m.requireTypes(d.args, probes[i])
	}
	for _, probe := range m.all {
		require.False(t, probe.Enabled())
	}
	path := m.p.Path()
	if !m.loaded {
		require.Empty(t, path)
		return
	}
	require.Equal(t, !m.memfd, filepath.Dir(path) == m.dir, path)
	notes, err := sdt.ReadFile(path)
	if m.live > 0 {
		require.NoError(t, err)
	}
	require.Len(t, notes, m.live)
	for i, d := range m.probes[:m.live] {
		require.Equal(t, d.name, notes[i].Name)
		require.Equal(t, m.p.Name(), notes[i].Provider)
		require.Len(t, notes[i].Args, len(d.args))
		for j, arg := range d.args {
			require.Equal(t, arg.Size(), notes[i].Args[j].Size)
			require.Equal(t, arg.Signed(), notes[i].Args[j].Signed)
		}
	}
}

// FuzzCalls makes a sequence of calls of one provider, and compares each answer
// with a model's.
func FuzzCalls(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x02\x05\x08\x02\x05\x00\x03\x02\x04\x00"))
	f.Fuzz(func(t *testing.T, bytes []byte) {
		in := &program{bytes[:min(len(bytes), 500)]}
		m := newModel(t, in)
		defer m.p.Close()
		for len(in.bytes) > 0 {
			modelCalls[in.next(len(modelCalls))](m, in)
			m.check()
		}
	})
}

// TestConcurrentCalls makes calls of one provider at once. What holds whatever the order: the errors' kinds, that a list of probes only
// grows, and that all is over after Close.
func TestConcurrentCalls(t *testing.T) {
	for range 20 {
		dir := filepath.Join(t.TempDir(), "images")
		p := stapsdt.NewProvider("busy", stapsdt.WithDir(dir))
		first := stapsdt.NewProbe1[int](p, "first")
		var all errgroup.Group
		for range 3 {
			all.Go(func() error {
				c := concurrent{p: p, dir: dir, all: []*stapsdt.Probe{&first.Probe}}
				for range 500 {
					if err := c.call(); err != nil {
						return err
					}
				}
				return nil
			})
		}
		require.NoError(t, all.Wait())
		require.NoError(t, p.Close())
		require.Empty(t, p.Path())
		require.ErrorIs(t, p.Load(), stapsdt.ErrClosed)
		for _, probe := range p.Probes() {
			require.NoError(t, probe.Fire())
			require.False(t, probe.Enabled())
		}
		require.Empty(t, mapped("busy"))
	}
}

// concurrent is one of several goroutines that use a provider.
type concurrent struct {
	p    *stapsdt.Provider
	dir  string
	all  []*stapsdt.Probe // those it knows
	seen []*stapsdt.Probe // what Probes has returned last
}

// call makes any call and returns what is wrong with its answer.
func (c *concurrent) call() error {
	allow := func(err error, sentinels ...error) error {
		if slices.ContainsFunc(sentinels, func(s error) bool { return errors.Is(err, s) }) {
			return nil
		}
		return err
	}
	switch rand.IntN(6) {
	case 0:
		probe, err := c.p.AddProbe(fmt.Sprint("more", rand.IntN(3)), stapsdt.Int32)
		c.all = append(c.all, probe)
		return allow(err, stapsdt.ErrClosed)
	case 1:
		return allow(c.p.Load(), stapsdt.ErrLoaded, stapsdt.ErrClosed)
	case 2:
		return c.p.Unload()
	case 3:
		if rand.IntN(128) == 0 {
			return c.p.Close()
		}
		if path := c.p.Path(); path != "" && filepath.Dir(path) != c.dir {
			return fmt.Errorf("loaded at %s", path)
		}
	case 4:
		list := c.p.Probes()
		if len(list) < len(c.seen) || !slices.Equal(c.seen, list[:len(c.seen)]) {
			return fmt.Errorf("the probes were %v and are %v", c.seen, list)
		}
		c.seen = list
	case 5:
		probe := c.all[rand.IntN(len(c.all))]
		if probe.Enabled() {
			return errors.New("enabled")
		}
		return probe.Fire("anything")
	}
	return nil
}
