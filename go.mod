module github.com/go-stapsdt/stapsdt

go 1.25.0

require (
	github.com/ianlancetaylor/cgosymbolizer v0.0.0-20250410214317-b8ecc8b6bbe6
	golang.org/x/sys v0.41.0
)
