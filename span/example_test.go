package span_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/span"
)

type (
	orderStart struct{ Item string }
	orderEnd   struct{ Price int64 } // in cents
)

var (
	shop  = stapsdt.NewProvider("shop") // main loads it: see package probeenv
	order = span.NewOperation[orderStart, orderEnd](shop, "order")
)

// buy reports each order. If deliver started a span with its context, the order would be its parent.
func buy(ctx context.Context, item string) (price int64, err error) {
	ctx, s := order.Start(ctx, orderStart{item})
	defer func() { s.End(orderEnd{price}, err) }()
	return deliver(ctx, item)
}

func deliver(_ context.Context, item string) (price int64, err error) {
	if item == "coffee" {
		return 0, errors.New("sold out")
	}
	return 250, nil
}

func Example() {
	// An observer stands in for a tracer.
	stop := shop.Observe(func(e *stapsdt.Event) {
		switch e.Probe().Name() {
		case "order__start":
			fmt.Println("start", e.ArgByName("item"))
		case "order__end":
			fmt.Printf("end price=%v error=%q\n", e.ArgByName("price"), e.ArgByName("error"))
		}
	})
	defer stop()

	buy(context.Background(), "tea")
	buy(context.Background(), "coffee")
	// Output:
	// start tea
	// end price=250 error=""
	// start coffee
	// end price=0 error="sold out"
}
