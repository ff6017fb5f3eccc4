//go:build !linux

package count

import (
	"context"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
)

// runTraced returns an error, because only Linux has processes that can be traced.
func (c *reporter) runTraced(context.Context, query.Config) error { return console.ErrLinux }
