// Package list shows the probes of processes, of files, of recordings and of programs at an
// address.
package list

import (
	"context"
	"slices"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/query/spec"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/show/console"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/stream/replay"
)

// Options select the probes and the output.
type Options struct {
	// Format is the format of the output.
	Format query.Format
	// Verbose shows each site.
	Verbose bool
	// From are the recordings whose probes are shown.
	From replay.From
}

// Run shows the probes of a target, of files, or of the program at an address.
func Run(
	ctx context.Context, to *console.Console, where query.Target, paths []string, o Options,
) error {
	if err := where.Check(); err != nil {
		return err
	}
	specs, files, err := functionSpecs(paths)
	if err != nil {
		return err
	}
	if len(specs) > 0 {
		return runFunctions(to, where, specs, files, o)
	}
	if o.From.Given() {
		if where.Given() || len(paths) > 0 {
			return query.Usagef("list takes one of -p PID, -a, FILE..., --from FILE and http://HOST/debug/probes/")
		}
		return runRecorded(ctx, to, o)
	}
	addressed := slices.ContainsFunc(paths, spec.IsAddress)
	if where.Given() == (len(paths) > 0) || addressed && len(paths) > 1 {
		return query.Usagef("list takes one of -p PID, -a, FILE... and http://HOST/debug/probes/")
	}
	if addressed {
		return runRemote(ctx, to, paths[0], o)
	}
	return runFiles(to, where, paths, o)
}

// functionSpecs divides arguments into specs of functions and paths.
func functionSpecs(args []string) (specs []spec.Spec, paths []string, err error) {
	for _, arg := range args {
		spec, err := spec.Parse(arg)
		switch {
		case spec.Functions && err != nil:
			return nil, nil, query.Usagef("%w", err)
		case spec.Functions:
			if specs = append(specs, spec); spec.File != "" && !slices.Contains(paths, spec.File) {
				paths = append(paths, spec.File)
			}
		default:
			paths = append(paths, arg)
		}
	}
	return specs, paths, nil
}
