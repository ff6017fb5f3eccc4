// Package gofunctions tests the command on functions of Go programs: every argument and result of
// generated functions, calls that recurse while stacks grow, and programs that do their worst.
//
// The flag -attachments makes TestStorm long:
//
//	go test ./internal/test/gofunctions -run TestStorm -attachments 100000 -timeout 1h
package gofunctions
