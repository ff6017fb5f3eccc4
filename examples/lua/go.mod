module github.com/go-stapsdt/stapsdt/examples/lua

go 1.25.0

require (
	github.com/arnodel/golua v0.1.0
	github.com/go-stapsdt/stapsdt v0.1.0
	github.com/go-stapsdt/stapsdt/internal/test v0.1.0
	github.com/ianlancetaylor/cgosymbolizer v0.0.0-20250410214317-b8ecc8b6bbe6
	github.com/stretchr/testify v1.12.1
)

require (
	github.com/arnodel/strftime v0.1.6 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.47.0 // indirect
)
