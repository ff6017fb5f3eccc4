package remote

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// watching opens a stream of a program that sends a text, and then ends.
func watching(t *testing.T, body string) *Stream {
	t.Helper()
	c, _ := answering(t, 200, "text/event-stream", ":\n\n"+body)
	s, err := c.Watch(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// TestNext: events, counts and the end come in their order, and what a later program may add is passed over.
func TestNext(t *testing.T) {
	long := strings.Repeat("t", maxText)
	s := watching(t, "data: {\"time\":\"2026-01-02T03:04:05.000000006Z\",\"provider\":\"a\",\"probe\":\"x\",\"pid\":7,\"args\":{"+
		`"z":18446744073709551615,"b":true,"f":1.5,"text":"t…","none":null,"long":"`+long+`…"}}`+"\n\n: silence\n\n"+
		"event: later\ndata: {}\n\nevent: stats\ndata: {\"dropped\":3,\"faults\":1}\n\nid: 1\nevent: end\ndata: {\"reason\":\"time\",\"stats\":{\"dropped\":4}}\n\n")
	for _, want := range []*Message{
		{Event: &Event{
			Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Provider: "a", Probe: "x", PID: 7,
			Args: Values{
				{Name: "z", V: json.Number("18446744073709551615")}, {Name: "b", V: true}, {Name: "f", V: json.Number("1.5")}, {Name: "text", V: "t…"},
				{Name: "none"}, {Name: "long", V: long, Cut: true},
			},
		}},
		{Counts: &Counts{Dropped: 3, Faults: 1}},
		{End: "time", Counts: &Counts{Dropped: 4}},
	} {
		m, err := s.Next()
		require.NoError(t, err)
		require.Equal(t, want, m)
	}
	_, err := s.Next()
	require.Equal(t, ErrGone, err)
}

// TestBroken: a malformed event is an error, and so is a line that has no end. An event that the end of the connection has cut is neither.
func TestBroken(t *testing.T) {
	for body, want := range map[string]string{
		"":                                    "the connection has ended",
		"event: stats\n\n":                    "the connection has ended",
		"data: {\"pid\":":                     "the connection has ended",
		"data: {}":                            "the connection has ended",
		"data: 7\n\n":                         "the program has sent a malformed event: ",
		"data: {\"pid\":-1}\n\n":              "the program has sent a malformed event: ",
		"data: {\"args\":[1]}\n\n":            "the program has sent a malformed event: an event without arguments",
		"data: {\"args\":{\"a\\n\":{}}}\n\n":  "the program has sent a malformed event: the argument a\n is not a value",
		"data: {\"args\":{\"\\u001b\":[]}}\n": "the argument \ufffd is not a value",
		"event: end\ndata: [\n\n":             "the program has sent a malformed event: ",
		"data: " + strings.Repeat("x", 128<<10) + "\n\n": "the connection has ended: bufio.Scanner: token too long",
	} {
		m, err := watching(t, body).Next()
		require.Nil(t, m)
		require.ErrorContains(t, err, want)
		require.Equal(t, strings.HasPrefix(want, ErrGone.Error()), strings.HasPrefix(err.Error(), ErrGone.Error()))
	}
}

// TestWatch: what is no stream of events, or ends before its first line, is refused.
func TestWatch(t *testing.T) {
	c, address := answering(t, 200, "text/html", ":\n\n")
	_, err := c.Watch(t.Context(), nil)
	require.Equal(t, &Error{404, "there is no debugprobe at " + address + ": another server answered"}, err)
	c, _ = answering(t, 200, "text/event-stream", "")
	_, err = c.Watch(t.Context(), nil)
	require.ErrorIs(t, err, ErrGone)
}
