// Package debugprobe serves a page on which a program's probes can be watched live in a
// browser, in the manner of net/http/pprof. It needs no tracer, no root and no Linux: the
// program observes itself (see [stapsdt.Provider.Observe]).
//
//	debugprobe.Mount(mux) // at /debug/probes/
//
// If it is given a flight recorder of package proberec, the page also shows the recorder's events:
//
//	debugprobe.Mount(mux, recorder)
//
// # Warning
//
// The page shows the arguments of every probe of the process, including probes of libraries.
// They may contain personal data, queries, or secrets. Anyone who can reach the handler can read
// them, and can make watched probes slower. Mount it where only the operators of the program
// can reach it: on a server of its own that listens on localhost, or below a handler that
// authenticates the client. Importing this package mounts nothing.
//
// The handler rejects every request that a browser makes on behalf of another site. A server
// that is reached on a loopback address answers only requests for localhost or a loopback
// address. Otherwise any site could read the probes of a developer's machine (DNS rebinding).
// If a reverse proxy on the same machine forwards requests, let it set the header Host to
// localhost. A Content-Security-Policy allows the page to run only its own scripts.
//
// # What it serves
//
// Relative to where the handler is mounted:
//
//	./                the page
//	probes.json       the providers and probes: names, types, state
//	events            live events, as server-sent events
//	events.json       live events, as JSON lines
//	histogram.json    a histogram of the next seconds' events
//	recorder.json     the events of flight recorders, as JSON lines; ?last=100 selects the
//	                  last 100 of each recorder
//	recording.rec     the events of one flight recorder, as a file for stapsdt --from;
//	                  ?recorder=2 selects the second
//
// Live events and histograms have these parameters, which are optional:
//
//	provider, probe   watch only providers, or probes, of that name
//	filter            a condition, such as status >= 500 && strings.HasPrefix(path, "/api/")
//	seconds           stop after that time: 1 to 600; 60 by default, 10 for histogram.json
//	events            stop after that many events
//	rate              send at most that many events per second: 1 to 1000; 100 by default
//	value             make a histogram of this number
//	by                make a histogram, or count, for each value of this expression
//
// histogram.json requires value or by, and events.json accepts neither.
//
// filter, value and by are Go expressions. They may use the names of the arguments, arg0, arg1
// and so on, and pid, provider and probe. They may contain literals, the usual operators, len,
// strings.HasPrefix, strings.HasSuffix, strings.Contains, and time.Second and the like. They
// are evaluated in the program, while the probe fires. Probes that lack a name that an
// expression uses are left out; if all are, the request fails.
//
//	curl -N 'localhost:8080/debug/probes/events.json?probe=request__done&filter=status>=500'
//
// An event is an object on a line of its own:
//
//	{"time":"2026-01-02T15:04:05.123456789Z","provider":"myapp","probe":"request__done","pid":4711,"args":{"path":"/","status":500}}
//
// The arguments are in order and have their names, or arg0, arg1 and so on. A duration is in
// nanoseconds. A time is a string like time, and a pointer is a string in hexadecimal. Numbers
// that JSON lacks are the strings "NaN", "+Inf" and "-Inf". Strings are cut at 1024 bytes; a cut
// string ends in "…".
//
// Unless the client ends the stream, the last line of events.json states why the stream
// ended, and the numbers of events:
//
//	{"end":{"reason":"time","stats":{"matched":1200,"sent":1000,"dropped":200,"faults":0}}}
//
// The reason is "time", "events" or "shutdown". An event is matched if the filter accepts it,
// and then either sent or dropped, unless "events" is reached. An event is a fault if an
// expression has no value, because it divides by zero or is not a finite number.
//
// In the stream of server-sent events, a message without a name is an event. Every second there
// is also a message named "stats", with an object like the one above, and, if value or by is given,
// a message named "histogram", with the content of histogram.json. The last is named "end".
//
// histogram.json is answered when the time is over. It has a group for each value of by or, without
// by, one with an empty key. With value, a group has numbers and buckets, in the unit of the value,
// which for a duration is the nanosecond:
//
//	{"value":"elapsed","by":"path","type":"time.Duration",
//	 "groups":[{"key":"/","count":70,
//	            "numbers":{"mean":4.1e6,"min":1e6,"p50":4e6,"p90":7e6,"p99":7e6,"max":7e6},
//	            "buckets":[[9.9e5,1.2e6,10],[2.9e6,3.5e6,60]]}],
//	 "others":0,"stats":{"matched":70,"sent":0,"dropped":0,"faults":0}}
//
// A bucket is its lower end, its upper end, which it does not include, and its count. others is the
// number of events of further groups, which exceed the limit below.
//
// An error is answered with an HTTP status of at least 400 and an object:
//
//	{"error":{"message":"undefined: pth","parameter":"filter","offset":17,"text":"..."}}
//
// offset is the place in the parameter, in bytes, and text shows it.
//
// # Cost
//
// Without a viewer, the handler costs nothing. While a probe is watched, each Fire of it
// calls the viewer's filter in the goroutine that fires, and counts the event. The cost of a
// viewer is limited:
//
//   - At most 8 viewers watch at the same time, in all handlers of a process. A ninth is
//     answered with the status 503.
//   - A viewer is stopped after 10 minutes at the latest, and when the server shuts down.
//   - A viewer receives at most 1000 events per second, and at most as many in a burst. Other
//     events are counted, take part in the histogram, and are dropped.
//   - Events wait for the connection in buffers of 256 KiB, two for each viewer. If a client is
//     too slow, events are dropped and counted; a Fire never waits for a client. If a
//     client accepts nothing for five seconds, its stream ends.
//   - An expression has at most 1024 bytes. A histogram has at most 32 groups, those that
//     appear first, and the buckets of a group take at most 6 KiB.
//   - One client at a time reads the flight recorders. That takes as much memory as they do.
package debugprobe
