module github.com/go-stapsdt/stapsdt/internal/systest

go 1.25.0

require (
	github.com/cilium/ebpf v0.22.0
	github.com/go-stapsdt/stapsdt v0.0.0
	github.com/stretchr/testify v1.12.1
	golang.org/x/sys v0.43.0
)

require go.yaml.in/yaml/v3 v3.0.5 // indirect

replace github.com/go-stapsdt/stapsdt => ../..
