//go:build !linux

package latency

import (
	"context"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/source"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
)

// runTraced returns an error, because only Linux has processes that can be traced.
func (l *latency) runTraced(context.Context, query.Config, source.Route) error {
	return query.ErrLinux
}
