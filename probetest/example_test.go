package probetest_test

import (
	"fmt"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/probetest"
)

var (
	shop       = stapsdt.NewProvider("shop")
	orderStart = stapsdt.NewProbe2[string, int32](shop, "order__start", "item", "count")
	orderEnd   = stapsdt.NewProbe2[string, string](shop, "order__end", "item", "error")
)

// order is the function to test. It has a mistake: it reports one item whatever the count.
func order(item string, count int32) {
	orderStart.Fire(item, 1)
	orderEnd.Fire(item, "")
}

// testOrder stands for a test such as TestOrder(t *testing.T).
func testOrder(t testing.TB) {
	rec := probetest.Record(t, shop)
	order("tea", 3)
	rec.Want(func() {
		orderStart.Fire("tea", 3)
		orderEnd.Fire("tea", "")
	})
	if ends := rec.Events(probetest.Only(&orderEnd.Probe)); len(ends) != 1 {
		t.Errorf("got %v, want one end", ends)
	}
}

func Example() {
	testOrder(&printer{})
	// Output:
	// probetest: the events of shop differ (-want +got):
	// 	- shop:order__start(item="tea", count=3)
	// 	+ shop:order__start(item="tea", count=1)
	// 	  shop:order__end(item="tea", error="")
}

// printer stands for the *testing.T of a test that fails. It prints the message.
type printer struct{ testing.TB }

func (*printer) Helper()        {}
func (*printer) Cleanup(func()) {}

func (*printer) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
