// Package kernels checks the library against the kernel that it runs on. It
// consists of tests only. As root they run on this machine,
//
//	go test ./internal/test/kernels
//
// and scripts/lib/kernels.sh and lockdown.sh run them on other kernels. There the test binary is the
// first process of a guest: it mounts what the tests need, runs them in a second
// process, and powers the guest off.
package kernels
