// Package gofunctions tests the command on functions of Go programs: every argument and result of
// generated functions, calls that recurse while stacks grow, and programs that do their worst.
//
// The flags -attachments and -calls make TestStorm and TestManyCalls long. TestRealPrograms builds programs
// from Go modules, and compares what their functions are called with, if STAPSDT_TEST_PROGRAMS is "all" or
// has names such as gopls,etcd:
//
//	go test ./internal/test/gofunctions -run TestStorm -attachments 100000 -timeout 1h
//	go test ./internal/test/gofunctions -run TestManyCalls -calls 10000000 -timeout 1h
//	STAPSDT_TEST_PROGRAMS=all go test ./internal/test/gofunctions -run TestRealPrograms -v -timeout 2h
package gofunctions
