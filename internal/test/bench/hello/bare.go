//go:build bare

package main

import (
	"fmt"
	"time"

	"github.com/go-stapsdt/stapsdt"
)

type userID int64

var app = stapsdt.NewProvider("hello")

// These are named.go's probes without the names.
var (
	request0 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__0")
	request1 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__1")
	request2 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__2")
	request3 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__3")
	request4 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__4")
	request5 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__5")
	request6 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__6")
	request7 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__7")
	request8 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__8")
	request9 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__9")
	query0   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__0")
	query1   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__1")
	query2   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__2")
	query3   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__3")
	query4   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__4")
	query5   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__5")
	query6   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__6")
	query7   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__7")
	query8   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__8")
	query9   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__9")
)

// fire fires two of the probes.
func fire() {
	if err := app.Load(); err != nil {
		fmt.Println(err)
	}
	defer app.Close()
	request0.Fire("hello", 1, time.Second)
	query0.Fire(1, true, nil, 2)
}
