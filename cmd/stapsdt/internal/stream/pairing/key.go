package pairing

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/internal/expr"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// Key holds the values that a start and its end have in common.
type Key []evaluate.Value

// IsID reports whether the key is one number, such as the ID of a span.
func (k Key) IsID() bool { return len(k) == 1 && k[0].Item.Type.Kind != expr.String }

// ID returns the number that is the key, or 0.
func (k Key) ID() uint64 {
	if !k.IsID() {
		return 0
	}
	return k[0].Bits
}

// ForText formats the values for a table.
func (k Key) ForText() string {
	var all []string
	for i := range k {
		all = append(all, k[i].ForText())
	}
	return strings.Join(all, ", ")
}

// ForJSON formats a value as JSON, or several as an array.
func (k Key) ForJSON() json.RawMessage {
	var all [][]byte
	for i := range k {
		all = append(all, k[i].ForJSON())
	}
	if len(all) == 1 {
		return all[0]
	}
	return slices.Concat([]byte("["), bytes.Join(all, []byte(",")), []byte("]"))
}

// Show formats the key. name is that of Columns.
func (k Key) Show(name string) evaluate.Shown {
	return evaluate.Shown{Name: name, Text: k.ForText(), JSON: k.ForJSON()}
}

// KeyName returns the name of a key, which is that of the first argument if this is the key.
func KeyName(key []string, argName func(i int) string) string {
	if len(key) == 1 && key[0] == "arg0" {
		return argName(0)
	}
	return strings.Join(key, ", ")
}

// pairKey identifies an open operation by the bits and the text of its key. If the key has several
// values, the text is that of appendTo, and there are no bits.
type pairKey struct {
	file *replay.File
	pid  uint32
	kind *Kind
	bits uint64
	text string
}

// at returns what identifies the operation of an event.
func (k Key) at(f *replay.File, pid uint32, kind *Kind) pairKey {
	at := pairKey{file: f, pid: pid, kind: kind}
	if len(k) == 1 {
		at.bits, at.text = k[0].Bits, k[0].Text
	} else {
		var room [128]byte
		at.text = string(k.appendTo(room[:0]))
	}
	return at
}

// appendTo appends bytes that differ if any of the values do. The length of a text precedes it, so
// that no part of it can pass for a part of the next one.
func (k Key) appendTo(to []byte) []byte {
	for i := range k {
		to = binary.NativeEndian.AppendUint64(to, k[i].Bits)
		to = binary.NativeEndian.AppendUint64(to, uint64(len(k[i].Text)))
		to = append(to, k[i].Text...)
	}
	return to
}

// keyOf returns the values that pair an event, if all are known. They are valid until the next
// event.
func (p *Pairs) keyOf(s *side, e *recording.Event) (key Key, ok bool) {
	p.key = p.key[:0]
	for i := range s.key {
		one, ok := p.partOf(s, &s.key[i], e)
		if !ok {
			return nil, false
		}
		p.key = append(p.key, one)
	}
	return p.key, true
}

// partOf returns a value that pairs an event, if it is known.
func (p *Pairs) partOf(
	s *side, part *evaluation, e *recording.Event,
) (v evaluate.Value, ok bool) {
	if part.expr != nil {
		v, fault := s.value(part)
		if fault = fault || v.Missing || v.Cut; fault { // it would pair operations that differ
			p.Unevaluated++
		}
		return v, !fault
	}
	v = evaluate.Value{Item: part.item, Bits: e.Goroutine}
	if part.item.Name == query.Thread {
		v.Bits = uint64(e.TID)
	}
	if v.Bits == 0 {
		p.Unknown++
	}
	return v, v.Bits != 0
}

// parseKey parses the parts of the key. start determines their types.
func (s *side) parseKey(start *side) error {
	s.key = nil
	for _, part := range s.kind.plan.Key {
		if part == query.Goroutine || part == query.Thread {
			number := evaluate.NewItem(part, expr.Type{Kind: expr.Uint, Size: 8})
			s.key = append(s.key, evaluation{item: number})
			continue
		}
		one, err := s.evaluation(part)
		if err != nil {
			return err
		}
		if other, err := start.Parse(part); err == nil {
			here, there := one.item.Type, other.Type()
			if (here.Kind == expr.String) != (there.Kind == expr.String) {
				err := query.KeyTypes(part, here, there)
				return fmt.Errorf("%s:%s: %w", s.Probe.Provider, s.Probe.Name, err)
			}
		}
		s.key = append(s.key, one)
	}
	return nil
}

// keyErr returns the reason why Operations.Key cannot pair the events of a kind, or nil. The IDs of
// spans pair them, and tell which span is a part of which.
func (o *Operations) keyErr(k *Kind) error {
	if len(o.Key) == 0 {
		return nil
	}
	if k.IsSpan() {
		return query.Usagef("%s is a span, which has an ID: leave out --key, or give SPECs of other operations", k.Name)
	}
	trial := &Kind{plan: &Plan{Pairing: query.Pairing{Key: o.Key}}}
	for _, s := range k.first {
		one := side{Evaluator: s.Evaluator, Side: s.Side, kind: trial}
		if err := one.parseKey(k.first[0]); err != nil {
			return err
		}
	}
	return nil
}

// fitKey returns an error if Operations.Key can pair the events of none of the kinds.
func (o *Operations) fitKey(kinds []*Kind) (wrong error) {
	for _, k := range kinds {
		err := o.keyErr(k)
		if err == nil {
			return nil
		}
		wrong = expr.Nearer(err, wrong)
	}
	return wrong
}
