package trace

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/render"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/events"

	"github.com/stretchr/testify/require"
)

// losing is a source that has lost another event whenever it is asked.
type losing struct {
	events.Source
	lost uint64
}

func (l *losing) Lost() uint64 { l.lost++; return l.lost }

// TestLossRate: lost events are reported at most once a second, however often they are counted.
func TestLossRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		to := &console.Console{Out: &bytes.Buffer{}, Err: &said}
		one := &trace{Console: to, options: &Options{}, printer: render.NewPrinter(query.Text, render.Style{}), stream: &events.Stream{Source: &losing{}, Live: true}}
		for range 3501 {
			_, _, err := one.Tick()
			require.NoError(t, err)
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, 4, strings.Count(said.String(), "\n"), "%s", &said)
		require.Contains(t, said.String(), "1000 events were lost")
		require.Equal(t, uint64(3001), one.lost)
	})
}
