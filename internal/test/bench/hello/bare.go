//go:build bare

package main

import (
	"time"

	"github.com/go-stapsdt/stapsdt"
)

// These are the probes of named.go, whose arguments have no names.
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
