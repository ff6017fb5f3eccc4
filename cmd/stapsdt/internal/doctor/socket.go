//go:build linux

package doctor

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/socket"
	"github.com/go-stapsdt/stapsdt/cmd/stapsdt/internal/target"
	"github.com/go-stapsdt/stapsdt/internal/wire"
)

// listens tells whether the process can be watched by its socket, without the kernel.
func listens(f *Facts) []Finding {
	err := f.Process.Socket
	if !f.Process.Alive || errors.Is(err, target.ErrNoProcess) {
		return nil
	}
	const start = "Process %d listens, but its socket cannot be used: %v."
	switch {
	case err == nil:
		return fine(fmt.Sprintf("Process %d listens: stapsdt watches its Go probes without rights and without the kernel.", f.PID))
	case errors.Is(err, socket.ErrNone):
		return fine(fmt.Sprintf("Process %d does not listen. If its program calls probesock.Listen, stapsdt needs no rights to watch it.", f.PID))
	case errors.Is(err, socket.ErrUser):
		return []Finding{note(fmt.Sprintf(start, f.PID, err), "Run stapsdt as that user. Root is not needed.")}
	case errors.Is(err, wire.ErrVersion):
		return []Finding{limit(fmt.Sprintf(start, f.PID, err), "Use a command of the same major version as the library in the program.")}
	case errors.Is(err, socket.ErrRefused):
		return []Finding{limit(fmt.Sprintf(start, f.PID, err),
			"Run stapsdt where the program's directory can be reached: in its container, or in one of the same user that shares the PID namespace or the volume.")}
	}
	return []Finding{limit(fmt.Sprintf(start, f.PID, err), "Let the program Close what Listen returned and call Listen again, or start it again.")}
}

// withoutKernel are the causes that do not keep stapsdt from watching a process that listens.
var withoutKernel = map[string]bool{
	"user": true, "capability": true, "not-loaded": true, "lockdown": true, "seccomp": true, "sys": true, "uprobes": true, "kernel": true,
}

// relieve turns the faults that concern only the kernel into limits of other tracers, where the process can be watched by
// its socket.
func relieve(f *Facts, all []Finding) {
	if f.Process.Socket != nil || !f.Process.Alive {
		return
	}
	for i := range all {
		if all[i].Level == Fault && withoutKernel[all[i].Cause] {
			all[i].Level = Limit
			all[i].Says += " This does not concern stapsdt, because the process listens."
			if cure := all[i].Cure; cure != "" {
				all[i].Cure = "For other tracers: " + strings.ToLower(cure[:1]) + cure[1:]
			}
		}
	}
}
