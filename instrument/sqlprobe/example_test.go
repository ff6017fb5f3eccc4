package sqlprobe_test

import (
	"context"
	"fmt"
	"log"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/sqlprobe"
)

func Example() {
	shop := stapsdt.NewProvider("shop")
	defer shop.Close()
	probes := sqlprobe.New(shop)
	// A program loads the provider here, or all providers: see package probeenv.

	db, err := probes.Open("memory", "shop.db") // in place of sql.Open, with any driver
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	// An observer stands in for a tracer.
	stop := shop.Observe(func(e *stapsdt.Event) {
		if e.Probe().Name() == "query__end" {
			fmt.Printf("%v: %v rows\n", e.ArgByName("text"), e.ArgByName("rows"))
		}
	})
	defer stop()
	const query = "SELECT name FROM item WHERE price < ?"
	rows, err := db.QueryContext(context.Background(), query, 500)
	if err != nil {
		log.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			log.Fatal(err)
		}
		fmt.Println(name)
	}
	// Output:
	// coffee
	// tea
	// SELECT name FROM item WHERE price < ?: 2 rows
}
