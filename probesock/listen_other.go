//go:build !linux

package probesock

import (
	"fmt"

	"github.com/go-stapsdt/stapsdt"
)

// listener is never made.
type listener struct{ path string }

func (*listener) watching() int { return 0 }

func (*listener) close() error { return nil }

func listen(bool) (*listener, error) {
	return nil, fmt.Errorf("%w: it needs memory that processes share, as on Linux", stapsdt.ErrUnsupported)
}
