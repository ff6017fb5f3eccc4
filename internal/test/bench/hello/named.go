//go:build named

package main

import (
	"time"

	"github.com/go-stapsdt/stapsdt"
)

// These are twenty probes with names for seventy arguments.
var (
	request0 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__0", "path", "status", "elapsed")
	request1 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__1", "path", "status", "elapsed")
	request2 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__2", "path", "status", "elapsed")
	request3 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__3", "path", "status", "elapsed")
	request4 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__4", "path", "status", "elapsed")
	request5 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__5", "path", "status", "elapsed")
	request6 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__6", "path", "status", "elapsed")
	request7 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__7", "path", "status", "elapsed")
	request8 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__8", "path", "status", "elapsed")
	request9 = stapsdt.NewProbe3[string, int32, time.Duration](app, "request__9", "path", "status", "elapsed")
	query0   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__0", "user", "cached", "text", "rows")
	query1   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__1", "user", "cached", "text", "rows")
	query2   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__2", "user", "cached", "text", "rows")
	query3   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__3", "user", "cached", "text", "rows")
	query4   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__4", "user", "cached", "text", "rows")
	query5   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__5", "user", "cached", "text", "rows")
	query6   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__6", "user", "cached", "text", "rows")
	query7   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__7", "user", "cached", "text", "rows")
	query8   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__8", "user", "cached", "text", "rows")
	query9   = stapsdt.NewProbe4[userID, bool, []byte, uint64](app, "query__9", "user", "cached", "text", "rows")
)
