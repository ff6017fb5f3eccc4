package proberec_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/proberec"
)

var (
	shop     = stapsdt.NewProvider("shop")
	order    = stapsdt.NewProbe2[string, string](shop, "order__end", "item", "error")
	recorder = proberec.New(1<<20, shop) // the last MiB of events
)

func Example() {
	recorder.Start()
	defer recorder.Close()
	order.Fire("tea", "")
	order.Fire("coffee", "sold out")

	// After a failure, a program writes the last events to a log or to a file.
	var lines bytes.Buffer
	if _, err := recorder.WriteJSON(&lines); err != nil {
		log.Print(err)
	}
	for events := json.NewDecoder(&lines); events.More(); {
		var event struct {
			Provider, Probe string
			Args            json.RawMessage
		}
		if err := events.Decode(&event); err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s:%s %s\n", event.Provider, event.Probe, event.Args)
	}
	// Output:
	// shop:order__end {"item":"tea","error":""}
	// shop:order__end {"item":"coffee","error":"sold out"}
}
