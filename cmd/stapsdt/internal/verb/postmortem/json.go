package postmortem

import (
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/ending"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/evaluate"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/pairing"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/tree"
	"github.com/go-stapsdt/stapsdt/internal/recording"
)

// JSONReport is a report in JSON.
type JSONReport struct {
	File       string            `json:"file" doc:"path of the recording"`
	PID        uint32            `json:"pid" doc:"process"`
	Executable string            `json:"executable" doc:"path of the program"`
	State      string            `json:"state" doc:"of the process" enum:"alive closed ended open"`
	Endings    []ending.Ending   `json:"endings" doc:"what tells how the process ended"`
	Events     uint64            `json:"events" doc:"number in the recording"`
	First      *time.Time        `json:"first" doc:"of the first event, or null"`
	Last       *time.Time        `json:"last" doc:"of the last event, or null"`
	Silence    time.Duration     `json:"silence" doc:"without events, in nanoseconds; until now, of a process that is alive"`
	Lost       uint64            `json:"lost" doc:"number of events"`
	Open       int               `json:"open" doc:"number of operations"`
	Unknown    int               `json:"end_may_be_lost" doc:"number of operations"`
	Full       uint64            `json:"full" doc:"starts without room; too many operations are open"`
	Longest    []jsonOpen        `json:"longest" doc:"operations without an end, the longest first"`
	Trees      []*tree.JSONParts `json:"trees" doc:"of the three oldest operations that are open, if they have parts"`
	Failed     uint64            `json:"failed" doc:"number of events with an error"`
	Errors     []jsonFailure     `json:"errors" doc:"events with an error; the last first"`
	Rates      jsonRates         `json:"rates" doc:"before the last minute, and in it"`
	Trails     []jsonTrail       `json:"trails" doc:"last events of the goroutines with open operations"`
	Recent     []jsonEvent       `json:"recent" doc:"last events"`
	Commands   []string          `json:"commands" doc:"command lines that show more"`
}

// jsonOpen is an open operation in JSON.
type jsonOpen struct {
	Operation string `json:"operation" doc:"PROVIDER:NAME"`
	pairing.JSONOpen
	Parent uint64 `json:"parent,omitempty" doc:"ID of the operation that it is a part of"`
}

// jsonEvent is an event in JSON.
type jsonEvent struct {
	Time  time.Time         `json:"time" doc:"of the event"`
	Probe string            `json:"probe" doc:"PROVIDER:NAME"`
	Args  render.JSONObject `json:"args" doc:"arguments"`
}

// jsonFailure is an event with an error.
type jsonFailure struct {
	Time      time.Time         `json:"time" doc:"of the event"`
	Operation string            `json:"operation" doc:"PROVIDER:NAME of the operation that it ends, or of the probe"`
	Args      render.JSONObject `json:"args" doc:"arguments of the start and of the end"`
}

// jsonTrail has the last events of a goroutine.
type jsonTrail struct {
	TID       uint32      `json:"tid,omitempty" doc:"thread"`
	Goroutine uint64      `json:"goroutine,omitempty" doc:"ID of the goroutine"`
	Events    []jsonEvent `json:"events" doc:"the last ones, in their order"`
}

// jsonRates are the rates in JSON.
type jsonRates struct {
	Seconds       float64    `json:"seconds" doc:"of the last minute; less if the recording is short"`
	BeforeSeconds float64    `json:"before_seconds" doc:"of the time before the last minute"`
	Rows          []jsonRate `json:"rows" doc:"a row for each operation, and for each probe without one"`
}

// jsonRate is a row of jsonRates.
type jsonRate struct {
	Name   string   `json:"name" doc:"of the operation or probe"`
	Last   jsonPart `json:"last" doc:"in the last minute"`
	Before jsonPart `json:"before" doc:"before the last minute"`
}

// jsonPart counts what has ended in a part of the time.
type jsonPart struct {
	Count  uint64            `json:"count" doc:"operations that ended, or events"`
	Rate   float64           `json:"rate" doc:"per second"`
	Errors uint64            `json:"errors" doc:"number that failed"`
	P50    *render.JSONFloat `json:"p50" doc:"in nanoseconds; null if no operation ended"`
	P99    *render.JSONFloat `json:"p99" doc:"in nanoseconds; null if no operation ended"`
}

// json converts the report to JSON.
func (r *report) json() *JSONReport {
	j := &JSONReport{
		File: r.path, PID: r.head.PID, Executable: r.head.Executable, State: r.state,
		Endings: append([]ending.Ending{}, r.endings...), Events: r.events, Lost: r.file.Lost(),
		Open: r.known, Unknown: r.unknown, Full: r.operations.Open.Full,
		Longest: []jsonOpen{}, Trees: []*tree.JSONParts{}, Failed: r.failed,
		Errors: []jsonFailure{},
		Rates:  r.jsonRates(), Trails: []jsonTrail{}, Recent: r.jsonEvents(r.recent.all()),
		Commands: append([]string{}, r.commands()...),
	}
	if r.events > 0 {
		first, last := time.Unix(0, r.first).UTC(), time.Unix(0, r.last).UTC()
		j.First, j.Last = &first, &last
	}
	if r.state == alive {
		j.Silence = r.silence()
	}
	for _, o := range r.open {
		j.Longest = append(j.Longest, jsonOpen{o.Kind.Name, o.JSON(), o.Parent})
	}
	for _, o := range r.roots {
		if tree := r.parts.JSON(o); tree != nil {
			j.Trees = append(j.Trees, tree)
		}
	}
	for _, f := range r.lastFailures() {
		name := nameOf(f.event.Probe)
		if f.start != nil {
			name = f.start.Kind.Name
		}
		at := time.Unix(0, f.event.Realtime).UTC()
		j.Errors = append(j.Errors, jsonFailure{at, name, evaluate.Object(f.arguments(r.values))})
	}
	for _, one := range r.paths() {
		all := one.all()
		if len(all) > 0 && len(j.Trails) < maxJSONTrails {
			j.Trails = append(j.Trails, jsonTrail{all[0].TID, all[0].Goroutine, r.jsonEvents(all)})
		}
	}
	return j
}

// maxJSONTrails is the maximum number of goroutines whose last events are in a report.
const maxJSONTrails = 100

func (r *report) jsonEvents(all []*recording.Event) []jsonEvent {
	list := []jsonEvent{}
	for _, e := range all {
		args := evaluate.Object(evaluate.ShowAll(r.values.Of(e)))
		list = append(list, jsonEvent{time.Unix(0, e.Realtime).UTC(), nameOf(e.Probe), args})
	}
	return list
}

func (r *report) jsonRates() jsonRates {
	seconds := r.rates.seconds()
	j := jsonRates{Seconds: seconds[1], BeforeSeconds: seconds[0], Rows: []jsonRate{}}
	for _, one := range r.rows {
		j.Rows = append(j.Rows, jsonRate{
			one.name, one.parts[1].json(seconds[1]), one.parts[0].json(seconds[0]),
		})
	}
	return j
}

func (p *part) json(seconds float64) jsonPart {
	j := jsonPart{Count: p.count, Rate: p.rate(seconds), Errors: p.errors}
	if h := p.histogram(); h != nil {
		p50, p99 := render.JSONFloat(h.Quantile(0.5)), render.JSONFloat(h.Quantile(0.99))
		j.P50, j.P99 = &p50, &p99
	}
	return j
}
