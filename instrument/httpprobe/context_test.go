package httpprobe

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-stapsdt/stapsdt/internal/eventtest"
	"github.com/go-stapsdt/stapsdt/internal/testenv"
	"github.com/go-stapsdt/stapsdt/probetest"

	"github.com/stretchr/testify/require"
)

// afterCtx is a context of a program that needs no goroutine for the contexts below it.
type afterCtx struct {
	context.Context
	done chan struct{}
}

func (c afterCtx) Done() <-chan struct{}               { return c.done }
func (c afterCtx) AfterFunc(func()) (stop func() bool) { return func() bool { return true } }

// TestAfterFuncer: package context starts no goroutine for a context that a handler or a
// transport derives, as it starts none untraced.
func TestAfterFuncer(t *testing.T) {
	p := eventtest.Provider(t, "after")
	probetest.Record(t, p)
	ctx := afterCtx{t.Context(), make(chan struct{})}
	derive := func(ctx context.Context) {
		_, cancel := context.WithCancel(ctx)
		defer cancel()
		require.Zero(t, testenv.GoroutinesOf("context"))
	}
	server := NewServer(p)
	for range 3 {
		h := server.Handler(server.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { derive(r.Context()) })))
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil).WithContext(ctx))
	}
	c := NewClient(p).Transport(roundTripper(func(r *http.Request) (*http.Response, error) {
		derive(r.Context())
		return &http.Response{Body: http.NoBody}, nil
	}))
	r, err := http.NewRequestWithContext(ctx, "GET", "http://x/", nil)
	require.NoError(t, err)
	_, err = c.RoundTrip(r)
	require.NoError(t, err)
}
