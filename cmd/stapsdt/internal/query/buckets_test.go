package query_test

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/querytest"
	"github.com/go-stapsdt/stapsdt/internal/expr"

	"github.com/stretchr/testify/require"
)

// TestSamples: the buckets of the tests have each kind for which there is code.
func TestSamples(t *testing.T) {
	code := reflect.TypeFor[query.BucketCode]()
	for i := range code.NumMethod() {
		is := func(b query.Buckets) bool { return reflect.TypeOf(b) == code.Method(i).Type.In(0) }
		require.True(t, slices.ContainsFunc(querytest.Buckets, is), code.Method(i).Name)
	}
}

// TestGroups: a bucket lies within the one that people see, and the groups follow each other.
func TestGroups(t *testing.T) {
	for _, b := range querytest.Buckets {
		for i := range b.Len() {
			low, high := b.Bounds(i)
			from, to := b.Group(low, high)
			require.LessOrEqual(t, from, low, "%v %d", b, i)
			require.GreaterOrEqual(t, to, high, "%v %d", b, i)
			if !math.IsInf(from, 0) && !math.IsInf(to, 0) {
				again, end := b.Group(from, to)
				require.Equal(t, []float64{from, to}, []float64{again, end}, "%v %d", b, i)
			}
		}
	}
	for low, want := range map[float64][2]float64{
		0: {0, 1}, 1: {1, 2}, 2: {2, 4}, 3: {2, 4}, 17: {16, 32}, 1 << 40: {1 << 40, 1 << 41},
	} {
		from, to := query.Powers{}.Group(low, low+1)
		require.Equal(t, want, [2]float64{from, to})
	}
}

// TestFits: an unsigned number has no negative bucket.
func TestFits(t *testing.T) {
	negative := query.Linear{Low: -1, High: 10, Step: 1}
	require.Error(t, negative.Fits(expr.Type{Kind: expr.Uint, Size: 8}))
	require.NoError(t, negative.Fits(expr.Type{Kind: expr.Int, Size: 8}))
	require.NoError(t, query.Powers{}.Fits(expr.Type{Kind: expr.Uint, Size: 1}))
}
