//go:build linux

package site

import (
	"fmt"
	"strings"

	"github.com/go-stapsdt/stapsdt/internal/image"
	"github.com/go-stapsdt/stapsdt/internal/proc"
)

// ForProcess returns the nop for the sites of this process: the nop that $STAPSDT_SITE names.
// If the variable is "fast", or is not set and no C code can fork the process unrepaired,
// it returns the nop that Chosen returns. ForProcess fails if the architecture does
// not have the nop that the variable names.
func ForProcess() (*image.Nop, error) { return named(proc.Getenv("STAPSDT_SITE")) }

func named(name string) (*image.Nop, error) {
	host := image.Host()
	switch {
	case name == "fast":
		return Chosen(), nil
	case name != "" && host.NopByName(name) == nil:
		return nil, fmt.Errorf("STAPSDT_SITE=%s: sites on %s are %s, or fast", name, host.Name, strings.Join(names(host), ", "))
	case name != "":
		return host.NopByName(name), nil
	case mayForkUnrepaired:
		return &host.Nops[0], nil
	}
	return Chosen(), nil
}

// names returns the names of an architecture's nops.
func names(a *image.Arch) []string {
	list := make([]string, len(a.Nops))
	for i := range list {
		list[i] = a.Nops[i].Name
	}
	return list
}
