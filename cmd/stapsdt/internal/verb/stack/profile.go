//go:build linux

package stack

import (
	"fmt"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/symbol"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"

	"github.com/google/pprof/profile"
)

// profile returns the stacks in the format of pprof. The label probe has the probe, and each
// expression of --by is the name of a label.
func (t *table) profile() *profile.Profile {
	b := &profiler{
		profile: &profile.Profile{
			SampleType: []*profile.ValueType{{Type: "events", Unit: "count"}}, DefaultSampleType: "events",
			TimeNanos: t.start.UnixNano(), DurationNanos: t.duration.Nanoseconds(),
		},
		functions: map[symbol.Function]*profile.Function{},
		mappings:  map[mappingKey]*profile.Mapping{}, locations: map[string]*profile.Location{},
	}
	for _, r := range t.rows {
		sample := &profile.Sample{
			Value: []int64{int64(r.Count)},
			Label: map[string][]string{"probe": {render.Printable(r.Of.String())}},
		}
		for i, text := range r.Text {
			sample.Label[t.By[i]] = []string{text}
		}
		for i := range r.Stack.Frames {
			sample.Location = append(sample.Location, b.location(&r.Stack.Frames[i]))
		}
		if r.Stack.Cut != symbol.Whole {
			cut := symbol.Function{Name: fmt.Sprintf("[%v]", r.Stack.Cut)}
			sample.Location = append(
				sample.Location, b.location(&symbol.Frame{Functions: []symbol.Function{cut}}),
			)
		}
		b.profile.Sample = append(b.profile.Sample, sample)
	}
	return b.profile
}

// profiler numbers the parts of a profile.
type profiler struct {
	profile   *profile.Profile
	functions map[symbol.Function]*profile.Function // the functions, without lines
	mappings  map[mappingKey]*profile.Mapping
	locations map[string]*profile.Location
}

type mappingKey struct {
	module *symbol.Module
	start  uint64
}

func (b *profiler) location(f *symbol.Frame) *profile.Location {
	key := fmt.Sprintf("%p %x %v", f.Module, f.Address, f.Functions)
	if l := b.locations[key]; l != nil {
		return l
	}
	l := &profile.Location{
		ID: uint64(len(b.locations) + 1), Address: f.Address, Mapping: b.mapping(f),
	}
	b.locations[key] = l
	b.profile.Location = append(b.profile.Location, l)
	fns := f.Functions
	if l.Mapping != nil {
		restrict(l.Mapping, fns)
	}
	if len(fns) == 0 {
		fns = []symbol.Function{{Name: f.Names()[0]}}
	}
	for _, fn := range fns {
		l.Line = append(l.Line, profile.Line{Function: b.function(fn), Line: int64(fn.Line)})
	}
	return l
}

// restrict clears what a mapping claims to have, if the functions of one of its addresses come from
// symbols: these lack inlined functions, files and lines. The tool pprof reads them from a file
// only if its mapping claims none of them.
func restrict(m *profile.Mapping, fns []symbol.Function) {
	noSource := func(fn symbol.Function) bool { return fn.File == "" }
	if len(fns) == 0 || slices.ContainsFunc(fns, noSource) {
		m.HasFunctions, m.HasFilenames = false, false
		m.HasLineNumbers, m.HasInlineFrames = false, false
	}
}

func (b *profiler) function(fn symbol.Function) *profile.Function {
	fn.Line = 0
	if known := b.functions[fn]; known != nil {
		return known
	}
	name := render.Printable(fn.Name)
	known := &profile.Function{
		ID: uint64(len(b.functions) + 1), Name: name, SystemName: name,
		Filename: render.Printable(fn.File),
	}
	b.functions[fn] = known
	b.profile.Function = append(b.profile.Function, known)
	return known
}

// mapping returns the part of a file that contains a frame. It has the addresses of the file,
// because processes map the file at different addresses.
func (b *profiler) mapping(f *symbol.Frame) *profile.Mapping {
	if f.Module == nil {
		return nil
	}
	start, end, offset := f.Module.Segment(f.Address)
	key := mappingKey{f.Module, start}
	if m := b.mappings[key]; m != nil {
		return m
	}
	m := &profile.Mapping{
		ID:    uint64(len(b.mappings) + 1),
		Start: start, Limit: end, Offset: offset, File: render.Printable(f.Module.Path),
		BuildID:      f.Module.BuildID(),
		HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true,
	}
	b.mappings[key] = m
	b.profile.Mapping = append(b.profile.Mapping, m)
	return m
}
