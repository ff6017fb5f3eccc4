//go:build !linux

package probesock

import (
	"fmt"
	"io"

	"github.com/go-stapsdt/stapsdt"
)

func listen(bool) (io.Closer, error) {
	return nil, fmt.Errorf("%w: it takes memory that processes of Linux share", stapsdt.ErrUnsupported)
}
