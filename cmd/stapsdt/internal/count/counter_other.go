//go:build !linux

package count

import (
	"context"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
)

// runTraced returns an error, because only Linux has processes that can be traced.
func (c *reporter) runTraced(context.Context, query.Config) error { return console.ErrLinux }
