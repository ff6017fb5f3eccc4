//go:build !linux

package functions

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/kernel/source"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/verb/count"
)

// open returns an error, because only Linux has processes that can be traced.
func open(*console.Console, query.Config, source.Route, *count.Options) (calls, error) {
	return nil, query.ErrLinux
}
