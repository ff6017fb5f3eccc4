package stapsdt

import (
	"runtime"
	"testing"
)

// needsLoader skips a test that loads providers in a build that cannot: that of another
// system, or with the tag that leaves the loader out.
func needsLoader(t testing.TB) {
	t.Helper()
	if !loads {
		t.Skipf("this build for %s/%s loads no providers", runtime.GOOS, runtime.GOARCH)
	}
}
