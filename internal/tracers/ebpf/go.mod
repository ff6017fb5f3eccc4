module github.com/go-stapsdt/stapsdt/internal/tracers/ebpf

go 1.25.0

require (
	github.com/cilium/ebpf v0.22.0
	github.com/go-stapsdt/stapsdt v0.0.0
)

require golang.org/x/sys v0.43.0 // indirect

replace github.com/go-stapsdt/stapsdt => ../../..
