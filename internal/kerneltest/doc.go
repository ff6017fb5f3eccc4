//go:build linux && (amd64 || arm64)

// Command kerneltest checks the library against the kernel that it runs on: as
// root, on this machine, or as the first process of a guest, where it mounts
// what it needs and powers off at the end. scripts/kernels.sh boots the guests.
//
//	CGO_ENABLED=0 go build ./internal/kerneltest && sudo ./kerneltest
//
// It prints a line on the kernel and the site that was chosen for it, a line for
// each check,
//
//	kernel 6.12.107+deb13-cloud-amd64 amd64, site nop1
//	ok NAME: what was seen
//	FAILED NAME: why
//	skipped NAME: why
//
// and last "N passed, N failed", which a run that crashed does not have.
package main
