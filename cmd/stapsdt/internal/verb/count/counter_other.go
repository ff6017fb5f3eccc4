//go:build !linux

package count

import (
	"context"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/source"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
)

// runTraced returns an error, because only Linux has processes that can be traced.
func (c *reporter) runTraced(context.Context, query.Config, source.Route) error {
	return query.ErrLinux
}
