//go:build linux

package kubernetes

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// startShop starts the service of packaging/kubernetes/sidecar with an exporter beside it, unless
// it runs, and returns its pods.
func startShop(t testing.TB) []pod {
	t.Helper()
	kubectl(t, "apply -k %s", kustomize(t, "sidecar"))
	kubectl(t, "-n shop rollout status deployment/shop --timeout=120s")
	all := pods(t, "-n shop")
	require.Len(t, all, 2)
	return all
}

// requestItems makes a request of the service in a pod.
func requestItems(p pod) error {
	answer, err := client.Get("http://" + p.Status.PodIP + ":8080/items")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("/items: the status is %s", answer.Status)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// awaitValue waits until a series of the exporter in a pod has a value.
func awaitValue(t testing.TB, p pod, series string, want float64) {
	t.Helper()
	await(t, func() error {
		page, err := scrape(p)
		if err == nil && page[series] != want {
			err = fmt.Errorf("%s is %v, not %v", series, page[series], want)
		}
		return err
	})
}

// TestSidecar: an exporter beside a service in a restricted namespace counts its requests, without
// any capability.
func TestSidecar(t *testing.T) {
	const series = `shop_request_seconds_count{container="app",executable="",method="GET",` +
		`namespace="shop",pod=%q,route="GET /items",status="200",workload="shop"}`
	for _, p := range startShop(t) {
		awaitValue(t, p, "stapsdt_watched_processes", 1)
		page, err := scrape(p)
		require.NoError(t, err)
		for range 3 {
			require.NoError(t, requestItems(p))
		}
		requests := fmt.Sprintf(series, p.Metadata.Name)
		awaitValue(t, p, requests, page[requests]+3)
	}
}
