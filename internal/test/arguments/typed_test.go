//go:build linux && (amd64 || arm64)

package arguments

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/test/values"
)

// TestTyped fires each number of arguments that a typed probe can have, with every Go type in every place, by Fire and by
// FireFunc.
func TestTyped(t *testing.T) {
	everywhere(t, func(t *testing.T, s *suite) {
		r := newRandom(t)
		p0 := stapsdt.NewProbe0(s.Provider, "p0")
		s.typed(&p0.Probe, p0.Fire)
		addTyped(s, true, false)
		addTyped(s, integers[int8](r)...)
		addTyped(s, integers[int16](r)...)
		addTyped(s, integers[int32](r)...)
		addTyped(s, integers[int64](r)...)
		addTyped(s, integers[int](r)...)
		addTyped(s, integers[uint8](r)...)
		addTyped(s, integers[uint16](r)...)
		addTyped(s, integers[uint32](r)...)
		addTyped(s, integers[uint64](r)...)
		addTyped(s, integers[uint](r)...)
		addTyped(s, integers[uintptr](r)...)
		addTyped(s, values.Floats[float32]()...)
		addTyped(s, values.Floats[float64]()...)
		addTyped(s, unsafe.Pointer(new(int)), nil, unsafe.Pointer(s))
		addTyped(s, strs(r)...)
		var slices [][]byte
		for _, text := range strs(r) {
			slices = append(slices, []byte(text))
		}
		addTyped(s, append(slices, nil)...)
		addMixed(s)
	})
}

// addTyped adds a probe of each number of arguments of one type, and cases with each value in each place.
func addTyped[A stapsdt.Arg](s *suite, list ...A) {
	p, name := s.Provider, reflect.TypeFor[A]().Kind().String()
	p1 := stapsdt.NewProbe1[A](p, name+"1")
	p2 := stapsdt.NewProbe2[A, A](p, name+"2")
	p3 := stapsdt.NewProbe3[A, A, A](p, name+"3")
	p4 := stapsdt.NewProbe4[A, A, A, A](p, name+"4")
	p5 := stapsdt.NewProbe5[A, A, A, A, A](p, name+"5")
	p6 := stapsdt.NewProbe6[A, A, A, A, A, A](p, name+"6")
	for k := range list {
		v := func(i int) A { return list[(k+i)%len(list)] }
		a, b, c, d, e, f := v(0), v(1), v(2), v(3), v(4), v(5)
		s.typed(&p1.Probe, func() { p1.Fire(a) }, a)
		s.typed(&p2.Probe, func() { p2.Fire(a, b) }, a, b)
		s.typed(&p3.Probe, func() { p3.Fire(a, b, c) }, a, b, c)
		s.typed(&p4.Probe, func() { p4.Fire(a, b, c, d) }, a, b, c, d)
		s.typed(&p5.Probe, func() { p5.Fire(a, b, c, d, e) }, a, b, c, d, e)
		s.typed(&p6.Probe, func() { p6.Fire(a, b, c, d, e, f) }, a, b, c, d, e, f)
		s.typed(&p1.Probe, func() { p1.FireFunc(func() A { return a }) }, a)
		s.typed(&p2.Probe, func() { p2.FireFunc(func() (A, A) { return a, b }) }, a, b)
		s.typed(&p3.Probe, func() { p3.FireFunc(func() (A, A, A) { return a, b, c }) }, a, b, c)
		s.typed(&p4.Probe, func() { p4.FireFunc(func() (A, A, A, A) { return a, b, c, d }) }, a, b, c, d)
		s.typed(&p5.Probe, func() { p5.FireFunc(func() (A, A, A, A, A) { return a, b, c, d, e }) }, a, b, c, d, e)
		s.typed(&p6.Probe, func() { p6.FireFunc(func() (A, A, A, A, A, A) { return a, b, c, d, e, f }) }, a, b, c, d, e, f)
	}
}

// addMixed adds probes whose arguments are of different types, some of them with names of their own.
func addMixed(s *suite) {
	type (
		level  int8
		userID uint64
		path   string
		blob   []byte
		flag   bool
	)
	p := s.Provider
	object := unsafe.Pointer(new(int))
	p2 := stapsdt.NewProbe2[path, int32](p, "mixed2")
	s.typed(&p2.Probe, func() { p2.Fire("/index.html", -200) }, path("/index.html"), int32(-200))
	p3 := stapsdt.NewProbe3[flag, blob, level](p, "mixed3")
	s.typed(&p3.Probe, func() { p3.Fire(true, blob("b"), -128) }, true, blob("b"), level(-128))
	p6 := stapsdt.NewProbe6[bool, int8, uint16, userID, blob, unsafe.Pointer](p, "mixed6")
	s.typed(&p6.Probe, func() { p6.Fire(true, -1, 65535, 1<<63, nil, object) }, true, int8(-1), uint16(65535), userID(1<<63), blob(nil), object)
	q6 := stapsdt.NewProbe6[string, unsafe.Pointer, string, uintptr, []byte, int](p, "strings6")
	s.typed(&q6.Probe, func() { q6.Fire(long, object, "", 7, []byte(long), -1) }, long, object, "", uintptr(7), []byte(long), -1)
}

// TestFields fires structs, with arguments in registers only and with more.
func TestFields(t *testing.T) {
	type (
		inner struct {
			Level int8
			Blob  []byte
		}
		few struct {
			A float32
			B string
			C *inner
			D int16
		}
		many struct {
			A bool
			B string
			inner
			C uint64
			D float64
			E *inner
			F unsafe.Pointer
			G []byte
			H uint16
			I int32
			_ [7]byte
			J string
		}
	)
	everywhere(t, func(t *testing.T, s *suite) {
		r := newRandom(t)
		object, texts := &inner{Level: 1}, strs(r)
		small := stapsdt.NewProbeOf[few](s.Provider, "few")
		large := stapsdt.NewProbeOf[many](s.Provider, "many")
		for i, f := range values.Floats[float64]() {
			a, b, n := texts[i%len(texts)], texts[(i+1)%len(texts)], r.Uint64()
			v := few{A: float32(f), B: a, C: object, D: int16(n)}
			s.typed(&small.Probe, func() { small.Fire(v) }, v.A, v.B, unsafe.Pointer(v.C), v.D)
			s.typed(&small.Probe, func() { small.FireFunc(func() few { return v }) }, v.A, v.B, unsafe.Pointer(v.C), v.D)
			w := many{A: i%2 == 0, B: b, inner: inner{int8(n), []byte(a)}, C: n, D: f, E: object, F: unsafe.Pointer(s), G: []byte(b), H: uint16(n), I: int32(n), J: a}
			args := []any{w.A, w.B, w.Level, w.Blob, w.C, w.D, unsafe.Pointer(w.E), w.F, w.G, w.H, w.I, w.J}
			s.typed(&large.Probe, func() { large.Fire(w) }, args...)
			s.typed(&large.Probe, func() { large.FireFunc(func() many { return w }) }, args...)
		}
	})
}
