package debugprobe_test

import (
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/debugprobe"
)

var (
	shop  = stapsdt.NewProvider("shop")
	order = stapsdt.NewProbe2[string, int32](shop, "order__placed", "item", "count")
)

// A program serves the page on localhost:
//
//	go http.ListenAndServe("localhost:8081", mux)
//
// The page is http://localhost:8081/debug/probes/. Programs such as curl read its events as JSON.
func Example() {
	mux := http.NewServeMux()
	debugprobe.Mount(mux)
	server := httptest.NewServer(mux)
	defer server.Close()

	const query = "probe=order__placed&filter=count>100&events=1"
	response, err := http.Get(server.URL + "/debug/probes/events.json?" + query)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	order.Fire("tea", 3)
	order.Fire("coffee", 500)
	var event struct {
		Probe string
		Args  json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&event); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s %s\n", event.Probe, event.Args)
	// Output: order__placed {"item":"coffee","count":500}
}
