//go:build !linux

package latency

import (
	"context"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
)

// runTraced returns an error, because only Linux has processes that can be traced.
func (l *latency) runTraced(context.Context, query.Config, string) error { return console.ErrLinux }
