package timeline

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
)

// chrome is the Trace Event Format of Chrome, which chrome://tracing, Perfetto and speedscope read.
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
type chrome struct{ began bool }

// event is an object of the format. Times are microseconds.
type event struct {
	Name     string             `json:"name"`
	Category string             `json:"cat,omitempty"`
	Phase    string             `json:"ph"`
	Time     json.Number        `json:"ts,omitempty"`
	Duration json.Number        `json:"dur,omitempty"`
	PID      int                `json:"pid"`
	TID      int                `json:"tid"`
	Scope    string             `json:"s,omitempty"`
	Args     *render.JSONObject `json:"args,omitempty"`
}

// micros returns a time in microseconds.
func micros(nanoseconds int64) json.Number {
	sign := ""
	if nanoseconds < 0 {
		sign, nanoseconds = "-", -nanoseconds
	}
	return json.Number(fmt.Sprintf("%s%d.%03d", sign, nanoseconds/1000, nanoseconds%1000))
}

func (c *chrome) event(e event) []byte {
	var b bytes.Buffer
	if c.began {
		b.WriteString(",\n")
	}
	c.began = true
	if err := render.NewEncoder(&b).Encode(e); err != nil {
		panic(err) // impossible: all types can be encoded
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func (c *chrome) mark(m *mark, e event) []byte {
	args := evaluate.Object(m.args)
	e.Name, e.Category, e.Time = m.name, m.provider(), micros(m.at)
	e.PID, e.TID, e.Args = m.process, m.track, &args
	return c.event(e)
}

func (c *chrome) span(m *mark, took int64) []byte {
	return c.mark(m, event{Phase: "X", Duration: micros(took)})
}

func (c *chrome) instant(m *mark) []byte { return c.mark(m, event{Phase: "i", Scope: "t"}) }

func (c *chrome) process(number, pid int, name string) []byte {
	return c.metadata("process_name", number, 0, fmt.Sprintf("%s %d", name, pid))
}

func (c *chrome) thread(process, track int, name string) []byte {
	return c.metadata("thread_name", process, track, name)
}

func (c *chrome) metadata(what string, process, track int, name string) []byte {
	o := render.JSONObject{
		Names:  []string{"name"},
		Values: []json.RawMessage{render.AppendJSONString(nil, name)},
	}
	return c.event(event{Name: what, Phase: "M", PID: process, TID: track, Args: &o})
}

func (*chrome) end(first time.Time, lost uint64) []byte {
	return fmt.Appendf(nil, "\n],\"otherData\":{\"start\":%q,\"lost_events\":%d}}\n", first.UTC().Format(time.RFC3339Nano), lost)
}
