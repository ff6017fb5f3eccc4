package slogprobe

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/go-stapsdt/stapsdt"
	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/stretchr/testify/require"
)

// emptyGroup is a LogValuer that gives an empty group.
type emptyGroup struct{}

func (emptyGroup) LogValue() slog.Value { return slog.GroupValue() }

// TestEmptyGroups: a handler writes the same of LogValuers that give empty groups, whether it is
// traced or not. slog writes a group in JSON that only such ones are in.
func TestEmptyGroups(t *testing.T) {
	run := func(p *stapsdt.Provider) string {
		var out bytes.Buffer
		log := slog.New(New(p).Handler(slog.NewJSONHandler(&out, &slog.HandlerOptions{
			ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		})))
		log.Info("member", slog.Group("g", slog.Any("e", emptyGroup{})))
		log.Info("attribute", "e", emptyGroup{})
		log.WithGroup("g").Info("group", "e", emptyGroup{})
		log.Info("both", slog.Group("g", slog.Any("e", emptyGroup{}), slog.Int("n", 1)))
		return out.String()
	}
	want := run(stapsdt.NewProvider("untraced"))
	require.Contains(t, want, `"g":{}`)
	p := eventtest.Provider(t, "groups")
	r := probetest.Record(t, p)
	require.Equal(t, want, run(p))
	for i, text := range []string{"", "", "", "g.n=1"} {
		require.Equal(t, text, r.Events()[i].Arg(3).String())
	}
}
