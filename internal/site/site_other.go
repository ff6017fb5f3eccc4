//go:build !arm64 && !(linux && amd64)

package site

func choose() string { return "" }
