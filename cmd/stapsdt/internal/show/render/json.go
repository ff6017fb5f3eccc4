package render

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// NewEncoder returns an encoder that writes one object per line. It escapes unprintable characters
// in strings.
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

// JSONFloat is a JSON number without an exponent. It must be finite.
type JSONFloat float64

// MarshalJSON implements json.Marshaler.
func (f JSONFloat) MarshalJSON() ([]byte, error) {
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

// JSONHistogram is a histogram in JSON, without the number of its values.
type JSONHistogram struct {
	Average JSONFloat    `json:"average" doc:"latency: in nanoseconds; of the values"`
	P50     JSONFloat    `json:"p50" doc:"latency: in nanoseconds; of the values"`
	P90     JSONFloat    `json:"p90" doc:"latency: in nanoseconds; of the values"`
	P99     JSONFloat    `json:"p99" doc:"latency: in nanoseconds; of the values"`
	P999    JSONFloat    `json:"p999" doc:"latency: in nanoseconds; of the values"`
	Max     JSONFloat    `json:"max" doc:"latency: in nanoseconds; of the values"`
	Buckets []JSONBucket `json:"buckets" doc:"those that have values"`
}

// JSONBucket is a bucket in JSON. Low or High is nil if it is infinite.
type JSONBucket struct {
	Low   *JSONFloat `json:"low" doc:"null if infinite; no value is less"`
	High  *JSONFloat `json:"high" doc:"null if infinite; all values are less"`
	Count uint64     `json:"count" doc:"number of values"`
}

// JSON converts the histogram to JSON.
func (h *Histogram) JSON() JSONHistogram {
	quantile := func(part float64) JSONFloat { return JSONFloat(h.Quantile(part)) }
	j := JSONHistogram{
		Average: JSONFloat(h.Average()), P50: quantile(0.5), P90: quantile(0.9),
		P99: quantile(0.99), P999: quantile(0.999), Max: quantile(1),
		Buckets: []JSONBucket{},
	}
	for _, b := range h.Buckets {
		j.Buckets = append(j.Buckets, JSONBucket{bound(b.Low), bound(b.High), b.Count})
	}
	return j
}

// bound returns a bound of a bucket, or nil if it is infinite.
func bound(f float64) *JSONFloat {
	if math.IsInf(f, 0) {
		return nil
	}
	return (*JSONFloat)(&f)
}

// PodName names a container of a pod.
type PodName struct {
	Namespace string `json:"namespace" doc:"of Kubernetes"`
	Pod       string `json:"pod" doc:"of Kubernetes"`
	Container string `json:"container" doc:"of Kubernetes"`
}

// NewPodName returns the name of a pod.
func NewPodName(p *recording.Pod) *PodName { return &PodName{p.Namespace, p.Name, p.Container} }

// Compare orders names.
func (n PodName) Compare(o PodName) int {
	return slices.Compare(
		[]string{n.Namespace, n.Pod, n.Container}, []string{o.Namespace, o.Pod, o.Container})
}
