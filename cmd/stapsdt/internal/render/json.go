//go:build linux

package render

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strconv"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/symbol"
)

// NewEncoder returns an encoder that writes one object per line. It escapes unprintable characters in strings.
func NewEncoder(w io.Writer) *json.Encoder {
	encoder := json.NewEncoder(escaper{w})
	encoder.SetEscapeHTML(false)
	return encoder
}

// escaper escapes unprintable characters in JSON, which can only be in strings.
type escaper struct{ io.Writer }

func (e escaper) Write(b []byte) (n int, err error) {
	escaped := make([]byte, 0, len(b))
	for _, r := range string(b) {
		if r == '\n' {
			escaped = append(escaped, '\n')
		} else {
			escaped = appendJSONRune(escaped, r)
		}
	}
	if _, err := e.Writer.Write(escaped); err != nil {
		return 0, err
	}
	return len(b), nil
}

// JSONFloat is a JSON number. Infinity becomes null.
type JSONFloat float64

// MarshalJSON implements json.Marshaler.
func (f JSONFloat) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(f), 0) || math.IsNaN(float64(f)) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(f), 'f', -1, 64), nil
}

// JSONObject is an object with ordered members.
type JSONObject struct {
	Names  []string
	Values []json.RawMessage
}

// MarshalJSON implements json.Marshaler.
func (o JSONObject) MarshalJSON() ([]byte, error) {
	members := make([][]byte, len(o.Names))
	for i, name := range o.Names {
		members[i] = append(append(AppendJSONString(nil, name), ':'), o.Values[i]...)
	}
	return append(append([]byte{'{'}, bytes.Join(members, []byte{','})...), '}'), nil
}

// JSONHistogram is a histogram in JSON.
type JSONHistogram struct {
	Count   uint64       `json:"count"`
	Average JSONFloat    `json:"average"`
	P50     JSONFloat    `json:"p50"`
	P90     JSONFloat    `json:"p90"`
	P99     JSONFloat    `json:"p99"`
	P999    JSONFloat    `json:"p999"`
	Max     JSONFloat    `json:"max"`
	Buckets []JSONBucket `json:"buckets"`
}

// JSONBucket is a bucket in JSON.
type JSONBucket struct {
	Low   JSONFloat `json:"low"`
	High  JSONFloat `json:"high"`
	Count uint64    `json:"count"`
}

// JSON converts the histogram to JSON.
func (h *Histogram) JSON() JSONHistogram {
	quantile := func(part float64) JSONFloat { return JSONFloat(h.Quantile(part)) }
	j := JSONHistogram{
		Count: h.Count(), Average: JSONFloat(h.Average()),
		P50: quantile(0.5), P90: quantile(0.9), P99: quantile(0.99), P999: quantile(0.999), Max: quantile(1),
		Buckets: []JSONBucket{},
	}
	for _, b := range h.Buckets {
		j.Buckets = append(j.Buckets, JSONBucket{JSONFloat(b.Low), JSONFloat(b.High), b.Count})
	}
	return j
}

// JSONStack is a stack in JSON: its frames, the innermost first, and the reason if it was cut.
type JSONStack struct {
	Stack []JSONFrame `json:"stack"`
	Cut   string      `json:"cut,omitempty"`
}

// JSONFrame is a function in a stack.
type JSONFrame struct {
	Function string `json:"function"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Module   string `json:"module,omitempty"`
}

// NewJSONStack converts a stack to JSON.
func NewJSONStack(s *symbol.Stack) JSONStack {
	j := JSONStack{Stack: []JSONFrame{}}
	for i := range s.Frames {
		f := &s.Frames[i]
		for k, name := range f.Names() {
			frame := JSONFrame{Function: name}
			if k < len(f.Functions) && f.Functions[k].File != "" {
				frame.File, frame.Line = f.Functions[k].File, f.Functions[k].Line
			}
			if f.Module != nil {
				frame.Module = f.Module.Name()
			}
			j.Stack = append(j.Stack, frame)
		}
	}
	if s.Cut != symbol.Whole {
		j.Cut = s.Cut.String()
	}
	return j
}
