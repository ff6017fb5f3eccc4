package probetest_test

import (
	"context"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/probetest"
	"github.com/go-stapsdt/stapsdt/span"
)

type (
	jobStart struct{ Name string }
	jobEnd   struct{ Rows int64 }
)

// To expect a span, start and end one. Its ID and its duration differ from run to run.
func ExampleIgnore() {
	t := &printer{} // in a test, t is its parameter
	shop := stapsdt.NewProvider("shop")
	job := span.NewOperation[jobStart, jobEnd](shop, "job")
	runs := func(rows int64) {
		_, s := job.Start(context.Background(), jobStart{"invoices"})
		s.End(jobEnd{rows}, nil)
	}

	rec := probetest.Record(t, shop)
	runs(3)
	unlike := probetest.Ignore("id", "parent", "nanoseconds")
	rec.Want(func() { runs(3) }, unlike)
	rec.Want(func() { runs(4) }, unlike, probetest.OnlyNamed("job__start"))
	// Output:
}
