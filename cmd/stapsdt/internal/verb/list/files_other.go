//go:build !linux

package list

import (
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
)

// runFiles returns an error, because only Linux has processes and files that can be traced.
func runFiles(*console.Console, query.Target, []string, Options) error { return query.ErrLinux }

// runFunctions is runFiles for the functions of Go programs.
func runFunctions(*console.Console, query.Target, []spec.Spec, []string, Options) error {
	return query.ErrLinux
}
