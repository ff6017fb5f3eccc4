package timestamp

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata" // a machine may lack the zones

	"github.com/stretchr/testify/require"
)

// TestFormatter: times are those of package time in any zone and year, also where the clock is set, and
// whatever time was appended before.
func TestFormatter(t *testing.T) {
	instants := []int64{0, -1, -999_999_999, -1_000_000_000, 999_999_999, 1_000_000_000, math.MinInt64, math.MaxInt64}
	for _, change := range []string{
		"2026-03-08T07:00:00Z", "2026-11-01T06:00:00Z", // of New York
		"2026-04-04T15:00:00Z", "2026-10-03T15:30:00Z", // of Lord Howe, by half an hour
		"2011-12-30T10:00:00Z", // of Apia, by a day
		"2024-02-29T00:00:00Z", "2000-01-01T00:00:00Z", "1900-03-01T00:00:00Z", "2016-12-31T23:59:59Z",
	} {
		at, err := time.Parse(time.RFC3339, change)
		require.NoError(t, err)
		for _, d := range []time.Duration{-time.Hour, -time.Second, -1, 0, 1, 999, 1000, time.Second - 1, time.Second, time.Hour} {
			instants = append(instants, at.Add(d).UnixNano())
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for n := int64(1_700_000_000_000_000_000); len(instants) < 20_000; n += random.Int64N(1 << (10 + len(instants)%30)) {
		instants = append(instants, n, int64(random.Uint64()))
	}
	zones := []*time.Location{time.UTC, time.FixedZone("", -1), time.FixedZone("", 5*3600+1800), time.Local}
	for _, name := range []string{"America/New_York", "Australia/Lord_Howe", "Pacific/Apia", "Africa/Monrovia"} {
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		zones = append(zones, zone)
	}
	for _, zone := range zones {
		for _, layout := range []string{Clock, DateTime} {
			f, all := Formatter{Layout: layout}, layout+".000000000"
			for _, n := range instants {
				at := time.Unix(0, n).In(zone)
				if got, want := string(f.Append([]byte("x"), at)), "x"+at.Format(all); got != want {
					require.Equal(t, want, got)
				}
			}
		}
	}
}
