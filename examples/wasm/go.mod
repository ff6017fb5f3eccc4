module github.com/go-stapsdt/stapsdt/examples/wasm

go 1.25.0

require (
	github.com/go-stapsdt/stapsdt v0.1.0
	github.com/go-stapsdt/stapsdt/internal/test v0.1.0
	github.com/ianlancetaylor/cgosymbolizer v0.0.0-20250410214317-b8ecc8b6bbe6
	github.com/stretchr/testify v1.12.1
	github.com/tetratelabs/wazero v1.12.0
)

require (
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
