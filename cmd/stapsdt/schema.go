package main

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/find/recordings"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/schema"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/functions"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/latency"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/list"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/postmortem"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/top"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/tree"
)

// objects returns the kinds of objects that the verbs print with -o json. A pod is that of kubectl
// stapsdt list, which adds it to each object.
func objects() []schema.Kind {
	return append([]schema.Kind{
		schema.Of("probe", "a probe", "list", struct {
			*render.PodName
			list.JSONProbe
		}{}),
		schema.Of("function", "a function of a Go program", "list", struct {
			*render.PodName
			list.JSONFunction
		}{}),
		schema.Of("recording", "a recording without its probes", "list", struct {
			*render.PodName
			recordings.Recording
		}{}),
		schema.Of("event", "an event", "trace", render.JSONEvent{}),
		schema.Of("lost", "events that are missing before a time, or at an unknown one", "trace", render.JSONLost{}),
		schema.Of("pods", "what is missing of pods, at the end", "trace", replay.PodLosses{}),
		schema.Of("losses", "what is missing, at the end", "count hist latency list", replay.Losses{}),
		schema.Of("count", "events of a probe", "count", count.JSONCount{}),
		schema.Of("histogram", "values of events of a probe", "hist", count.JSONHistogram{}),
		schema.Of("times", "durations of operations", "latency", latency.JSONTimes{}),
		schema.Of("unpaired", "events without a counterpart, after the times", "latency", latency.JSONUnpaired{}),
		schema.Of("calls", "calls of a function", "latency", functions.JSONCalls{}),
		schema.Of("rest", "functions and calls without a row, after the rows", "latency", functions.JSONRest{}),
		schema.Of("screen", "a screen", "top", top.JSONScreen{}),
		schema.Of("functions", "a screen of functions", "top", top.JSONFunctions{}),
		schema.Of("tree", "an operation that has no parent", "tree", tree.JSONTree{}),
		schema.Of("report", "what a program was doing when it ended", "postmortem", postmortem.JSONReport{}),
	}, linuxObjects()...)
}

// schemaText returns the JSON Schema of the objects.
func schemaText() []byte {
	return schema.Document(
		"What stapsdt prints with -o json",
		"A line of stapsdt VERB -o json is a #/$defs/stapsdt-VERB. Integers have up to 64 bits, and sums more.",
		valueDoc, objects())
}

// valueDoc describes the values of events.
const valueDoc = "Durations are in nanoseconds, times as in RFC 3339, and typed pointers hexadecimal strings. NaN and the infinities are strings. An interface is the type of its value, or nil. What cannot be read is null, as is a null pointer to a string."
