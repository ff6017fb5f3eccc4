// Package fired says what the subjects fire, and so what a tracer must print.
package fired

import (
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt"
)

// Probe is a probe whose arguments follow from the number of the event, which is the first of them.
type Probe struct {
	Name   string
	Names  []string // of the arguments
	Types  []stapsdt.ArgType
	Values func(n uint64) []any
}

// Pair is what cstapsdt's demo fires as well, under any name.
var Pair = Probe{
	Name:   "pair",
	Names:  []string{"count", "negative"},
	Types:  []stapsdt.ArgType{stapsdt.Uint64, stapsdt.Int64},
	Values: func(n uint64) []any { return []any{n, -int64(n)} },
}

// Wide has an argument of every type, negative numbers and such with the highest bit, and all the arguments there can
// be: on every architecture some are on the stack, a string among them.
var Wide = Probe{
	Name:  "wide",
	Names: []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"},
	Types: []stapsdt.ArgType{
		stapsdt.Uint64, stapsdt.String, stapsdt.Int64, stapsdt.Uint8, stapsdt.Int8, stapsdt.Int16,
		stapsdt.Int64, stapsdt.Uint64, stapsdt.Uint32, stapsdt.Int32, stapsdt.String, stapsdt.Uint16,
	},
	Values: func(n uint64) []any {
		return []any{
			n, fmt.Sprintf("text-%d", n), -int64(n), uint8(200 + n%50), -1 - int8(n%100), int16(-300 - int16(n%1000)),
			-int64(n) << 32, 1<<63 + n, 1<<31 + uint32(n), -int32(n), fmt.Sprintf("stack-%d", n), uint16(1<<15 + n),
		}
	},
}

// DoneName is the name of the probe whose arguments are the fields of a Done.
const DoneName = "request__done"

// Done has arguments of many types, more of them than there are registers on amd64. The first is the number of the event.
type Done struct {
	Status  int32
	Path    string
	Elapsed time.Duration
	OK      bool
	Ratio   float64
	Req     *Request
	Code    uint16
	N       uint64
}

// Request is what an argument points to.
type Request struct {
	Path  string
	Size  int64
	Ratio float64
	Next  *Request
	Tags  []string
	Info  struct{ Method string }
}

// NewDone returns the arguments of event n.
func NewDone(n uint64) Done {
	req := &Request{Path: fmt.Sprintf("/path-%d", n), Size: -int64(n), Ratio: 0.5}
	req.Next, req.Info.Method = req, "GET"
	return Done{
		int32(n), fmt.Sprintf("text-%d", n), time.Duration(n) * time.Microsecond, n%2 == 1, float64(n) + 0.25, req,
		uint16(1<<15 + n), 1<<63 + n,
	}
}
