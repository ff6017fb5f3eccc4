package span_test

import (
	"context"
	"fmt"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/span"
)

type (
	queryStart struct{ Text string }
	queryEnd   struct{ Rows int64 }
)

// A span that starts with the context of another has it as its parent.
func Example_parent() {
	shop := stapsdt.NewProvider("shop")
	defer shop.Close()
	request := span.NewOperation[struct{}, struct{}](shop, "request")
	query := span.NewOperation[queryStart, queryEnd](shop, "query")

	var within uint64
	stop := shop.Observe(func(e *stapsdt.Event) {
		if e.Probe().Name() == "query__start" {
			fmt.Println(e.ArgByName("text"), e.ArgByName("parent").Uint64() == within)
		}
	})
	defer stop()

	ctx, r := request.Start(context.Background(), struct{}{})
	within = r.ID()
	_, q := query.Start(ctx, queryStart{"SELECT name FROM item"})
	q.End(queryEnd{3}, nil)
	r.End(struct{}{}, nil)
	// Output: SELECT name FROM item true
}
