// Package functions measures the calls of Go functions in the kernel, and shows the functions in a
// table by the time that they take.
package functions

import (
	"context"
	"slices"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/source"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/text"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
)

// By stands for the functions in --by.
const By = "function"

// CutBy returns the expressions of --by without By, and whether it was among them.
func CutBy(by []string) (rest []string, found bool) {
	rest = slices.DeleteFunc(slices.Clone(by), func(src string) bool { return src == By })
	return rest, len(rest) < len(by)
}

// ErrRecorded is the error of a verb that pairs calls with their returns and is given a recording.
var ErrRecorded = query.Usagef("recordings do not have the depth of calls, which is needed to pair calls of functions with their returns")

// maxFunctions is the maximum number of functions that a pattern may select.
const maxFunctions = 2000

// Function is a function whose calls are measured.
type Function struct {
	name string  // its SPEC
	fit  [2]bool // whether its calls and its returns are seen, and have what expressions use
}

// String returns the SPEC that selects the function.
func (f *Function) String() string { return f.name }

// returns returns the SPEC that selects its returns.
func (f *Function) returns() string { return f.name + spec.ReturnSuffix }

// Calls measures the calls of functions.
type Calls struct {
	*console.Console
	Options *count.Options
	calls   calls
}

// calls are the calls of a source.
type calls interface {
	// run lets tick show the table until the run ends.
	run(ctx context.Context, tick func() (next time.Duration, more bool, err error)) error
	// table returns the table of the calls so far.
	table() (*Table, error)
	// report warns of calls that are not in the table.
	report() error
	close()
}

// Open attaches to functions and to their returns. The specs of the configuration select the
// functions.
func Open(to *console.Console, config query.Config, o *count.Options) (*Calls, error) {
	if err := check(o); err != nil {
		return nil, err
	}
	var calls, returns []spec.Choice
	for _, one := range config.Specs {
		if one.Returns {
			return nil, query.Usagef("calls are paired with their returns: give %s", one.Calls())
		}
		calls = append(calls, one)
		returns = append(returns, spec.Choice{Spec: one.Suffixed(spec.ReturnSuffix)})
	}
	if o.From.Given() {
		return nil, ErrRecorded
	}
	if err := config.CheckWhere(); err != nil {
		return nil, err
	}
	config.Specs = append(calls, returns...)
	config.Kernel = query.UsesThread(append(slices.Clone(o.By), config.Where)...)
	asked := config
	asked.Where = ""
	route, err := source.Choose(to, &asked, events.Options{})
	if err != nil {
		return nil, err
	}
	c := &Calls{Console: to, Options: o}
	c.calls, err = open(to, config, route, o)
	return c, err
}

// columns are the words of --sort.
var columns = []string{"total", "own", "count", "p50", "p99", "max"}

// check returns an error if an option is not valid.
func check(o *count.Options) error {
	if o.Sort != "" && !slices.Contains(columns, o.Sort) {
		return query.Usagef("--sort takes %s for a table of functions, not %q", text.List(columns, "or"), o.Sort)
	}
	return count.CheckLimit(o.Limit)
}

// Run lets tick show the table until the run ends.
func (c *Calls) Run(
	ctx context.Context, tick func() (next time.Duration, more bool, err error),
) error {
	return c.calls.run(ctx, tick)
}

// Table returns the table of the calls so far.
func (c *Calls) Table() (*Table, error) { return c.calls.table() }

// Report warns of calls that are not in the table.
func (c *Calls) Report() error { return c.calls.report() }

// Close releases all resources.
func (c *Calls) Close() { c.calls.close() }

// Run measures the calls of functions until the run ends, and shows the table.
func Run(
	ctx context.Context, to *console.Console, config query.Config, o count.Options,
) error {
	interval, err := o.NewInterval()
	if err != nil {
		return err
	}
	c, err := Open(to, config, &o)
	if err != nil {
		return err
	}
	defer c.Close()
	screen := console.Screen{Console: to}
	show := func(last bool) error {
		t, err := c.Table()
		switch {
		case err != nil:
			return err
		case config.Format.IsJSON():
			return t.encode(to.Out)
		}
		return screen.Show(t.Text(o.Sort, o.Limit, console.Columns(to.Out)), last)
	}
	err = c.Run(ctx, func() (next time.Duration, more bool, err error) {
		due, next := interval.Due()
		if due {
			err = show(false)
		}
		return next, true, err
	})
	if err == nil {
		err = show(true)
	}
	if err != nil {
		return err
	}
	return c.Report()
}
