package httpprobe_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/instrument/httpprobe"
)

func Example() {
	shop := stapsdt.NewProvider("shop")
	defer shop.Close()
	requests := httpprobe.NewServer(shop)
	// A program loads the provider here, or all providers: see package probeenv.

	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no such item", http.StatusNotFound)
	})
	server := httptest.NewServer(requests.Handler(mux)) // or http.ListenAndServe

	// An observer stands in for a tracer.
	stop := shop.Observe(func(e *stapsdt.Event) {
		if e.Probe().Name() == "request__end" {
			fmt.Println(e.ArgByName("route"), e.ArgByName("status"), e.ArgByName("path"))
		}
	})
	defer stop()
	response, err := http.Get(server.URL + "/items/7")
	if err != nil {
		log.Fatal(err)
	}
	response.Body.Close()
	server.Close() // It waits for the handler.
	// Output: GET /items/{id} 404 /items/7
}

// A fetch ends when its body was read or is closed.
func ExampleClientProbes_Transport() {
	supplier := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "12 in stock")
	}))
	defer supplier.Close()

	shop := stapsdt.NewProvider("shop")
	defer shop.Close()
	fetches := httpprobe.NewClient(shop)
	client := &http.Client{Transport: fetches.Transport(nil)} // around http.DefaultTransport

	stop := shop.Observe(func(e *stapsdt.Event) {
		if e.Probe().Name() == "fetch__end" {
			fmt.Println(e.ArgByName("method"), e.ArgByName("status"), e.ArgByName("bytes"))
		}
	})
	defer stop()
	response, err := client.Get(supplier.URL + "/stock?item=tea")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	stock, err := io.ReadAll(response.Body)
	fmt.Println(string(stock), err)
	// Output:
	// GET 200 11
	// 12 in stock <nil>
}

type userKey struct{}

// identify is middleware that copies the request, so that the Handler around it does not see which
// pattern the mux matches.
func identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, _, _ := r.BasicAuth()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, user)))
	})
}

// Without Route, the route would be empty.
func ExampleServerProbes_Route() {
	shop := stapsdt.NewProvider("shop")
	defer shop.Close()
	requests := httpprobe.NewServer(shop)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {})
	handler := requests.Handler(identify(requests.Route(mux)))

	stop := shop.Observe(func(e *stapsdt.Event) {
		if e.Probe().Name() == "request__end" {
			fmt.Println(e.ArgByName("route"))
		}
	})
	defer stop()
	r := httptest.NewRequest("POST", "/orders", strings.NewReader("item=tea"))
	handler.ServeHTTP(httptest.NewRecorder(), r)
	// Output: POST /orders
}
